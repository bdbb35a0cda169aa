#include "common/output/terminal_line.h"

#include "common/base/text.h"
#include "common/output/progress.h"

#include <fmt/format.h>

#include <cstdio>

namespace busbar {

TerminalLine::TerminalLine() : enabled_(stderr_is_terminal()) {}

void TerminalLine::show(const std::string& text) {
  constexpr std::size_t kMaxLine = 119;
  if (!enabled_) return;
  const std::string line = without_controls(text.substr(0, kMaxLine));
  erase();
  fmt::print(stderr, "{}", line);
  std::fflush(stderr);
  shown_ = line.size();
}

// Blanks instead of an escape sequence: they work on every terminal.
void TerminalLine::erase() {
  if (shown_ == 0) return;
  fmt::print(stderr, "\r{:{}}\r", "", shown_);
  std::fflush(stderr);
  shown_ = 0;
}

}  // namespace busbar
