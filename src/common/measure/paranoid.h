#pragma once

#include "common/backends/backend.h"
#include "common/base/config.h"
#include "common/processes/comm.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// --paranoid: all processes compare what they are about to call, `calls` times, before anybody calls it. If they do
/// not agree, all throw the same AgreedError(invalid_use), which names the ranks that deviate. Does nothing without the
/// option. Collective; never between timed operations.
void compare_calls(const Comm& world, const Config& config, const Backend& backend, const Operation& op,
                   std::uint64_t calls);

/// The header's line about --paranoid.
std::string paranoid_remark();

/// The next call of one process, its arguments as text ("count 16384", "type float", ...).
struct AnnouncedCall {
  int rank = 0;  ///< its first
  std::string host;
  int group = 0;  ///< of NCCL_TESTS_SPLIT: other groups may call something else
  std::vector<std::string> arguments;
};

/// The sentence about ranks that deviate from the majority of their group; empty if all agree. Pure.
std::string deviation(std::span<const AnnouncedCall> calls, std::string_view operation);

}  // namespace busbar
