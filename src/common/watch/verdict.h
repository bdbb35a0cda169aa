#pragma once

#include "common/base/error.h"

#include <cstdint>
#include <string_view>

namespace busbar {

/// What is wrong with a job that does not go on, in the order in which it is looked for: the first that holds is the
/// verdict, so that a secondary symptom (a rank that waits for a dead one) never is. `ok` stands outside the order.
enum class Verdict : std::uint8_t {
  hw_fault,          ///< a GPU, link or port reports an error or is down
  host_unreachable,  ///< all ranks of a host are silent, or two hosts cannot reach each other
  process_dead,      ///< a rank's process is gone
  process_stopped,   ///< a rank's process is stopped, or frozen while its neighbours are alive
  resource,          ///< /dev/shm, memory, locked memory, file descriptors
  config,            ///< a wrong or unequal setting, version, interface or device
  init_not_joined,   ///< some ranks never began to initialise
  init_stuck,        ///< all began, some or none finished
  arg_mismatch,      ///< ranks called with different arguments
  order_mismatch,    ///< ranks called in different orders
  slow_not_hung,     ///< something still moves
  rank_lagging,      ///< some ranks never entered the operation that the others wait in
  stuck_inside,      ///< all entered it, none came out
  unknown,           ///< the evidence does not tell
  ok,
};

inline constexpr int kVerdicts = static_cast<int>(Verdict::ok) + 1;

/// "PROCESS_DEAD".
std::string_view name(Verdict verdict);

/// What `busbar diagnose` ends with: 0 ok; 3 hardware, hosts, processes, resources, settings; 4 what hangs; 7 slow; 6
/// unknown.
ExitCode exit_code(Verdict verdict);

}  // namespace busbar
