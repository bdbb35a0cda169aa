#pragma once

#include "driver/readers/log_files.h"

#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace busbar {

/// Finds the stacks that py-spy dump, gdb, cuda-gdb and pstack print, among other lines.
class StackDumps {
 public:
  /// Takes the next line of the file. False: it is not of a stack.
  bool add(std::string_view line);

  /// The stacks so far. `file`: its name, which may have the rank.
  std::deque<ProcessStack> take(const std::string& file);

 private:
  /// A stack that is being printed.
  struct Open {
    std::string pid;
    ProcessStack* stack = nullptr;  ///< null: of another thread than the main one
    int foreign = 0;                ///< lines of others since the last one of it
  };

  std::string before_;        ///< the last line before a stack, if it may be a heading
  int headed_ = -1;           ///< the rank that a heading names
  std::map<int, Open> open_;  ///< by rank: their lines may be mixed
  std::deque<ProcessStack> stacks_;
};

/// "ranks 0-4,7 are", "pid 42 in x.log is": a few one by one.
std::string list_members(const std::set<StackMember>& members);

}  // namespace busbar
