#include "common/output/progress.h"

#include "common/base/say.h"
#include "common/base/text.h"
#include "common/processes/launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace busbar {

bool is_on_terminal(int fd) {
  const char* const term = std::getenv("TERM");
  if (term == nullptr || *term == '\0' || std::string_view(term) == "dumb") return false;
  if (!detect_launch().launched()) return ::isatty(fd) == 1;
  // A rank writes into its launcher's pipe, or its pseudo-terminal, wherever that leads then.
  std::error_code unknown;
  const std::string end = std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", ::getppid(), fd), unknown);
  return end.starts_with("/dev/pts/") || end.starts_with("/dev/tty");
}

std::string coloured(std::string_view text) {
  // Green, yellow, red, magenta.
  constexpr std::array<std::string_view, 4> kWords{" PASS OK ", " WARN SKIP ", " FAIL FAILED WRONG ",
                                                   " INCONCLUSIVE UNKNOWN "};
  constexpr std::array kCodes{32, 33, 31, 35};
  const auto in_word = [](char c) { return c == '_' || c == '-' || std::isalnum(static_cast<unsigned char>(c)); };
  std::string result;
  for (auto left = text.begin(); left != text.end();) {
    const bool begins = in_word(*left);
    const auto end = std::find_if(left, text.end(), [&](char c) { return in_word(c) != begins; });
    const std::string_view part(left, end);
    const auto* const words = std::ranges::find_if(
        kWords, [&](std::string_view list) { return begins && list.find(fmt::format(" {} ", part)) != list.npos; });
    const auto code = static_cast<std::size_t>(words - kWords.begin());
    result += code == kWords.size() ? std::string(part) : fmt::format("\033[1;{}m{}\033[0m", kCodes.at(code), part);
    left = end;
  }
  return result;
}

void TerminalLine::show(const std::string& text) {
  constexpr std::size_t kMaxLine = 119;
  if (!enabled_ || text.empty()) return;
  const std::string line = without_controls(text.substr(0, kMaxLine));
  erase();
  fmt::print(out_, "{}", line);
  std::fflush(out_);
  shown_ = line.size();
}

void TerminalLine::report(const std::string& text) {
  if (enabled_) return show(text);
  say("{}", text);
}

// Spaces instead of an escape sequence: they work on every terminal. On stdout if both end on one, because a launcher
// may pass on the table that follows before what it finds on stderr.
void TerminalLine::erase() {
  if (shown_ == 0) return;
  std::FILE* const out = out_ == stderr && is_on_terminal(STDOUT_FILENO) ? stdout : out_;
  fmt::print(out, "\r{:{}}\r", "", shown_);
  std::fflush(out);
  shown_ = 0;
}

namespace {

// The cost of an 8-byte row, in bytes: 20 iterations of both placements, fills and checks take about as long as for
// some 50 KiB on host memory and for some MiB on GPUs. Between the two; the estimate improves once large rows come.
constexpr double kRowWork = 256 << 10;

constexpr double kLongRun = 10;       // [s]
constexpr double kFirstEstimate = 1;  // [s]
constexpr std::size_t kMaxLine = 79;
constexpr double kPassEvery = 0.5;  // [s]; passes of small messages take milliseconds

std::string duration_text(double time_s) {
  const auto s = static_cast<long long>(std::lround(std::min(time_s, 1e15)));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s % 3600 / 60);
}

}  // namespace

double row_work(const Case& row_case) { return kRowWork + static_cast<double>(row_case.nbytes); }

double time_left_s(const SweepState& state, double elapsed_s) {
  if (state.rows_total == 0 || state.work_done <= 0) return -1;
  return elapsed_s * std::max(0.0, state.work_total / state.work_done - 1);
}

std::string progress_line(const SweepState& state, const Case& now, double elapsed_s) {
  const double left_s = time_left_s(state, elapsed_s);
  const bool promises_long = elapsed_s >= kFirstEstimate && elapsed_s + left_s >= kLongRun;
  if (elapsed_s < kLongRun && !promises_long) return {};
  std::string line = fmt::format("row {}", state.rows_done + 1);
  if (state.rows_total > 0) line += fmt::format(" of {}", state.rows_total);
  line += fmt::format(" ({} B {}", now.nbytes, name(now.dtype));
  line += now.op ? fmt::format(" {})", name(*now.op)) : ")";
  if (left_s >= 0) {
    line += fmt::format(", {:.0f} %, about {} left", std::floor(100 * state.work_done / state.work_total),
                        duration_text(left_s));
  } else {
    line += fmt::format(", {} so far", duration_text(elapsed_s));
  }
  return line.substr(0, kMaxLine);
}

std::string pass_line(int pass, int cells_done, int cells, double elapsed_s, double max_s) {
  if (elapsed_s < kFirstEstimate) return {};
  return fmt::format("pass {}, {} of {} cells done, {} of at most {}", pass, cells_done, cells,
                     duration_text(elapsed_s), duration_text(max_s))
      .substr(0, kMaxLine);
}

Progress::Progress(const Plan& plan, int cycles, bool enabled, std::FILE* out, Clock::time_point start)
    : line_(enabled, out), start_(start) {
  const auto times = static_cast<std::size_t>(std::max(0, cycles));
  state_.rows_total = plan.cases.size() * times;
  for (const Case& row_case : plan.cases) state_.work_total += row_work(row_case) * static_cast<double>(times);
}

void Progress::begin_row(const Case& row_case, Clock::time_point now) {
  line_.show(progress_line(state_, row_case, std::chrono::duration<double>(now - start_).count()));
}

void Progress::pass(int pass, int cells_done, int cells, double elapsed_s, double max_s) {
  if (elapsed_s < next_pass_s_) return;
  next_pass_s_ = elapsed_s + kPassEvery;
  line_.show(pass_line(pass, cells_done, cells, elapsed_s, max_s));
}

void Progress::end_row(const Case& row_case) {
  ++state_.rows_done;
  state_.work_done += row_work(row_case);
}

}  // namespace busbar
