#pragma once

#include "driver/diagnose/log_fact.h"

#include <string_view>

namespace busbar {

/// Whether a line is one of PyTorch's ProcessGroupNCCL watchdog (1.9 to 2.8) that tells which operation timed out or
/// what was enqueued and completed last; then `out` has its TorchWork and, of its origin, what stands in front of it
/// and the time of glog's prefix. The rank is the job's where the line has it ("[rank3]:", 2.3 on), else the process
/// group's. Never throws, never allocates.
bool parse_torch_line(std::string_view line, LogLine& out);

}  // namespace busbar
