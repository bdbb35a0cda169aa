#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace busbar {

/// Now as "YYYY-MM-DD HH:MM:SS" in local time.
std::string local_timestamp();

/// Seconds since 1970 of such a text; nullopt if it is none. In the hour that autumn repeats: the second time.
std::optional<std::int64_t> parse_local_timestamp(const std::string& text);

}  // namespace busbar
