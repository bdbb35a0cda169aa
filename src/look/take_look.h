#pragma once

#include "common/machine/probe.h"
#include "common/record/host_look.h"
#include "look/seen_process.h"

#include <cstddef>

namespace busbar {

struct LookOptions {
  ProcessFilter filter;
  double apart_s = 5;               ///< between the looks
  double limit_s = 60;              ///< then what is left is given up
  std::size_t log_bytes = 1 << 20;  ///< of all logs of this host together; 4 MiB of one at most
  bool native_stacks = false;       ///< stops each rank while it is read
  bool flight_recorder = false;     ///< makes each rank write a file
};
BUSBAR_RECORD(LookOptions, filter, apart_s, limit_s, log_bytes, native_stacks, flight_recorder);

/// Looks twice at this host and the job's processes on it. Reads; each source of facts in a process of its own with a
/// deadline, so that this ends soon after the limit, whatever blocks.
HostLook take_look(const Probe& probe, const LookOptions& options);

}  // namespace busbar
