// Opens a page in a browser without a window and without a network.
#pragma once

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace addnorm::test {

struct Opened {
  std::string dom;      // after the page's scripts have run
  std::string console;  // lines that the page or the browser wrote about it
  bool ran = false;
};

inline Opened open_in_browser(const std::filesystem::path& page,
                              const std::filesystem::path& folder) {
  const auto dom = folder / "dom.html", log = folder / "browser.log";
  const std::string command =
      "HOME='" + folder.string() +
      "' chromium-headless-shell --no-sandbox --disable-gpu"
      " --host-resolver-rules='MAP * ~NOTFOUND' --enable-logging=stderr --virtual-time-budget=5000"
      " --dump-dom 'file://" +
      page.string() + "' >'" + dom.string() + "' 2>'" + log.string() + "' </dev/null";
  Opened opened;
  opened.ran = std::system(command.c_str()) == 0;
  const auto read = [](const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  opened.dom = read(dom);
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("CONSOLE") != std::string::npos) opened.console += line + "\n";
  }
  return opened;
}

inline int count_of(const std::string& text, const std::string& what) {
  int count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size()))
    ++count;
  return count;
}

}  // namespace addnorm::test
