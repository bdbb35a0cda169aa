#pragma once

#include "driver/readers/log_files.h"

#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

// What people print into logs over many lines, among lines of others.

/// Finds answers of NCCL's RAS service among other lines: people print them into their logs, whole or in excerpts, as
/// text or JSON, several in turn, and others print in between.
class RasBlocks {
 public:
  static constexpr std::size_t kMost = 64;  ///< answers: the newest are kept

  /// Takes the next line of the file. False: it is not of RAS.
  bool add(std::string_view line);

  /// The answers so far, oldest first, the last one perhaps incomplete.
  std::vector<std::string> take();

 private:
  bool open_block(std::string_view line);
  bool add_text(std::string_view line);
  bool add_json(std::string_view line);
  void append(std::string_view line);
  void finish();

  std::vector<std::string> answers_;
  std::string text_;       ///< of the answer that is under way
  std::size_t bytes_ = 0;  ///< of all answers
  int last_heading_ = 0;
  int foreign_ = 0;  ///< lines of others since the last one of RAS
  int depth_ = 0;    ///< in a JSON document; 0: the answer is text
  bool is_answer_ = false;
};

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
