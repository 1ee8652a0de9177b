#include "progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "output.h"

namespace addnorm::cli {
namespace {

constexpr int bar_width = 24;
constexpr auto bar_interval = std::chrono::milliseconds(100);
constexpr auto line_interval = std::chrono::seconds(10);

std::string bar(double share) {
  const int full = static_cast<int>(std::clamp(share, 0.0, 1.0) * bar_width);
  return "[" + std::string(static_cast<size_t>(full), '=') +
         std::string(static_cast<size_t>(bar_width - full), ' ') + "]";
}

// The bar and what follows it, cut to the terminal's width: of a wrapped line only the last row could be
// cleared.
std::string fitted(const std::string& text) {
  winsize size = {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return text;
  return text.substr(0, size.ws_col - 1U);
}

void write_error(const std::string& text) {
  // A terminal that goes away must not end the run.
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds > 0 && seconds < 0.999) return fmt::format("{:.0f} ms", std::ceil(1000 * seconds));
  const auto whole = static_cast<int64_t>(std::lround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

Progress::Progress() : terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { clear_bar(); }

void Progress::clear_bar() {
  if (bar_shown_) write_error("\r\x1b[K");
  bar_shown_ = false;
}

void Progress::line(const std::string& text) {
  clear_bar();
  log(text);
}

void Progress::started(const std::filesystem::path& run) { line("run folder " + run.string()); }

void Progress::step(const train::StepReport& report) {
  const auto now = std::chrono::steady_clock::now();
  const bool last = report.step == report.steps;
  const bool first = shown_ == std::chrono::steady_clock::time_point{};
  const std::string numbers = fmt::format(
      "loss {:.4f}  gradient norm {:.3g}  {} left  rate {:.3g}{}  {:.3g} steps/s  {:.3g} "
      "tokens/s{}",
      report.loss, report.grad_norm, duration_text(report.seconds_left), report.lr,
      last_evaluation_, report.steps_per_second, report.tokens_per_second,
      report.skipped ? "  (not finite: refused)" : "");
  if (terminal_) {
    if (!last && now - shown_ < bar_interval) return;
    shown_ = now;
    write_error("\r\x1b[K" + fitted(fmt::format("{} {}/{}  {}",
                                                bar(static_cast<double>(report.step) /
                                                    static_cast<double>(report.steps)),
                                                report.step, report.steps, numbers)));
    bar_shown_ = true;
    return;
  }
  const int64_t every = std::max<int64_t>(1, report.steps / 20);
  if (!first && !last && report.step % every != 0 && now - shown_ < line_interval) return;
  shown_ = now;
  log(fmt::format("step {}/{}  {}", report.step, report.steps, numbers));
}

void Progress::evaluated(int64_t step, double loss) {
  last_evaluation_ = fmt::format("  validation {:.4f}", loss);
  line(fmt::format("step {}: validation loss {:.4f}", step, loss));
}

void Progress::saved(const std::filesystem::path& checkpoint) {
  line("saved " + checkpoint.string());
}

void Progress::note(const std::string& text) { line(text); }

}  // namespace addnorm::cli
