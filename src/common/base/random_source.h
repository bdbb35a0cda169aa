#pragma once

#include <cstdint>
#include <string>

namespace busbar {

/// 128 bits from the system's random source in hexadecimal: no two launches share them, and nobody guesses them. Throws
/// Error(not_possible).
std::string random_id();

/// The seed that was asked for, or where that is 0 one that is drawn: small enough to be typed again.
std::uint64_t seed_or_drawn(std::uint64_t asked);

}  // namespace busbar
