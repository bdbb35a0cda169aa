#pragma once

#include "driver/diagnose/call_alignment.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace busbar {

/// Ranks that made fewer calls on a communicator than others.
struct CallLag {
  std::int64_t front = 0;               ///< key after the last call of the foremost
  std::int64_t least = 0;               ///< of the last
  std::vector<std::uint32_t> at_front;  ///< indices of streams
  std::vector<std::uint32_t> behind;
  bool waited_for = false;  ///< not merely the usual skew of calls that are enqueued ahead
};

/// Nothing where all made the same number of calls. A few calls of difference
/// are usual in a job that runs, because hosts enqueue ahead of the GPUs. Ranks
/// wait where most of them stopped at the same call: in a job that moves they
/// are spread. A lead beyond what a stream's queue holds is no skew either.
std::optional<CallLag> find_lag(const JobBook& book, const CallAlignment& alignment);

}  // namespace busbar
