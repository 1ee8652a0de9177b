// The page around the data: policy, style, licenses, scripts.
#include <array>
#include <string>
#include <string_view>

#include "addnorm/base/files.h"
#include "addnorm/report/report.h"

namespace addnorm::report {

// Embedded when addnorm is built; see CMakeLists.txt.
extern const std::string_view charts_script;  // d3, Observable Plot
extern const std::string_view page_script;
extern const std::string_view page_style;
extern const std::string_view licenses;

namespace {

std::string escaped(std::string_view text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '&':
        html += "&amp;";
        break;
      case '"':
        html += "&quot;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

// Inside a script element only "<" can end it; JSON has it in strings alone.
std::string for_script(std::string_view json) {
  std::string text;
  for (const char c : json) text += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return text;
}

// What a Content-Security-Policy calls a script by: base64 of its SHA-256.
std::string script_hash(std::string_view script) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::string hex = sha256(script);
  std::array<unsigned, 33> bytes{};  // one zero more, so that all groups are of three
  for (size_t i = 0; i < 32; ++i) {
    bytes.at(i) = static_cast<unsigned>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  }
  std::string text;
  for (size_t i = 0; i < 33; i += 3) {
    const unsigned group = bytes.at(i) << 16 | bytes.at(i + 1) << 8 | bytes.at(i + 2);
    for (const unsigned shift : {18U, 12U, 6U, 0U}) text += digits[group >> shift & 63U];
  }
  text.back() = '=';
  return "'sha256-" + text + "'";
}

}  // namespace

std::string page(const std::string& title, const std::string& json) {
  std::string html;
  html.reserve(charts_script.size() + json.size() + (size_t{1} << 16));
  html += "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  // Nothing is fetched; charts set styles on their elements.
  html +=
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src ";
  html += script_hash(charts_script) + " " + script_hash(page_script) + "\">\n";
  html += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  html += "<title>" + escaped(title) + "</title>\n<style>\n";
  html += page_style;
  html += "</style>\n</head>\n<body>\n<header></header>\n<main></main>\n";
  html +=
      "<noscript>This page draws its charts with a script of its own; please allow "
      "it.</noscript>\n";
  html +=
      "<footer><details><summary>Licenses of the chart libraries inside this page</summary><pre>";
  html += escaped(licenses);
  html += "</pre></details></footer>\n<script type=\"application/json\" id=\"data\">";
  html += for_script(json);
  html += "</script>\n<script>";
  html += charts_script;
  html += "</script>\n<script>";
  html += page_script;
  html += "</script>\n</body>\n</html>\n";
  return html;
}

}  // namespace addnorm::report
