#pragma once

#include <cstdint>

namespace busbar {

/// Physical memory that this process holds now [bytes]; 0 where /proc does not tell.
std::int64_t resident_bytes();

/// The most that it ever held [bytes].
std::int64_t peak_resident_bytes();

}  // namespace busbar
