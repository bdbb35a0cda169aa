#pragma once

#include <cstddef>
#include <string>

namespace busbar {

/// One line on stderr that is rewritten in place, where a person watches; nothing elsewhere. Call erase() before
/// anything else is printed, to stdout too: both mostly end on one terminal.
class TerminalLine {
 public:
  TerminalLine();
  TerminalLine(const TerminalLine&) = delete;
  TerminalLine& operator=(const TerminalLine&) = delete;
  ~TerminalLine() { erase(); }

  void show(const std::string& text);
  void erase();

 private:
  bool enabled_;
  std::size_t shown_ = 0;  // characters on the terminal
};

}  // namespace busbar
