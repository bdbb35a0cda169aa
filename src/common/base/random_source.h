#pragma once

#include <cstdint>
#include <string>

namespace busbar {

/// 128 bits from the system's random source in hexadecimal: unique to a launch, and impossible to guess. Throws
/// Error(not_possible).
std::string random_id();

/// The requested seed; if that is 0, a random one that is short enough to be typed again.
std::uint64_t seed_or_drawn(std::uint64_t asked);

}  // namespace busbar
