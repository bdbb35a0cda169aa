#pragma once

#include "common/measure/plan.h"

#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace busbar {

/// Whether a person sees, on a terminal that is not dumb, what this process or its launcher writes to that descriptor.
bool is_on_terminal(int fd);

/// The text with its outcomes in color ("PASS", "FAILED", "WRONG"), for a terminal.
std::string coloured(std::string_view text);

/// One line on stderr that is rewritten in place, if a person watches; otherwise nothing. Call erase() before printing
/// anything else, to stdout too: both usually end on one terminal.
class TerminalLine {
 public:
  explicit TerminalLine(bool enabled = is_on_terminal(STDERR_FILENO), std::FILE* out = stderr)
      : enabled_(enabled), out_(out) {}
  TerminalLine(const TerminalLine&) = delete;
  TerminalLine& operator=(const TerminalLine&) = delete;
  ~TerminalLine() { erase(); }

  void show(const std::string& text);
  /// The same, and a message of its own where no person watches.
  void report(const std::string& text);
  void erase();

 private:
  bool enabled_;
  std::FILE* out_;
  std::size_t shown_ = 0;  // characters on the terminal
};

/// The progress of a run. Work is the weight of rows: see row_work().
struct SweepState {
  std::size_t rows_done = 0;
  std::size_t rows_total = 0;  ///< 0: without end
  double work_done = 0;
  double work_total = 0;
};

/// A row's share of the run: its bytes, plus the constant cost of any row.
double row_work(const Case& row_case);

/// The time left if the remaining work proceeds like the finished work [seconds]; negative if unknown.
double time_left_s(const SweepState& state, double elapsed_s);

/// The progress line without its end, at most 79 characters; empty while a run is, or is expected to be, short.
std::string progress_line(const SweepState& state, const Case& now, double elapsed_s);

/// The same for --stat, whose rows are done only towards the end; `max_s` is its limit (--max-time).
std::string pass_line(int pass, int cells_done, int cells, double elapsed_s, double max_s);

/// A TerminalLine that shows the progress of a long run. Rank 0 only.
class Progress {
 public:
  /// `cycles` as -N (0: for ever). Prints nothing unless `enabled`.
  Progress(const Plan& plan, int cycles, bool enabled, std::FILE* out = stderr, Clock::time_point start = Clock::now());

  void begin_row(const Case& row_case, Clock::time_point now = Clock::now());
  void end_row(const Case& row_case);

  /// Instead of rows: a pass of --stat is under way. Rewrites the line at most twice a second.
  void pass(int pass, int cells_done, int cells, double elapsed_s, double max_s);

  void erase() { line_.erase(); }

 private:
  SweepState state_;
  TerminalLine line_;
  Clock::time_point start_;
  double next_pass_s_ = 0;  // time of the run from which a pass may be shown again
};

}  // namespace busbar
