#pragma once

#include "driver/readers/log_line.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace busbar {

/// Whether a line is one of PyTorch's ProcessGroupNCCL watchdog (1.9 to 2.8) that says which operation timed out or
/// what was enqueued and completed last; then `out` has its TorchWork and, of its origin, what precedes it and the time
/// of glog's prefix. The rank is the job's if the line has it ("[rank3]:", 2.3 on), else the process group's. Never
/// throws, never allocates.
bool parse_torch_line(std::string_view line, LogLine& out);

/// What PyTorch's watchdog reported for one rank in one process group.
struct TorchState {
  std::int64_t timed_out_seq = -1;  ///< the lowest; -1: none timed out
  std::string op;                   ///< of that one
  std::int64_t numel_in = -1, numel_out = -1;
  std::int64_t last_enqueued = -1, last_completed = -1;
  std::size_t file = 0;
  std::uint64_t line = 0;  ///< of the first timeout in `file`; 0: none
  bool signalled = false;  ///< it received the signal that a collective timed out, here or elsewhere
  std::string example;     ///< the first line about it
};

/// Ranks of the group, from the sizes of the operation that timed out; -1 if unknown.
int group_size(const TorchState& state);

/// Adds what another line or log reports for the same rank.
void merge_torch_state(TorchState& state, const TorchState& other);

/// By process group and rank.
struct TorchBook {
  std::map<std::pair<std::string, int>, TorchState> states;

  void add(const TorchWork& work, std::size_t file, std::uint64_t line);
};

}  // namespace busbar
