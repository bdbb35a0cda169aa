#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace busbar {

/// The largest size that parse_bytes accepts: every size also fits a signed 64-bit number, for JSON readers.
inline constexpr std::uint64_t kMaxBytes = std::numeric_limits<std::int64_t>::max();

/// Throws Error(bad_config): "'TEXT' is not WANTED".
[[noreturn]] void reject_text(std::string_view text, std::string_view wanted);

/// A size such as 8, 1.5K, 64M, 1GB or 2 TiB: a number (fractions allowed) and optionally K, M, G or T in either case,
/// powers of 1024. A fraction of a byte is dropped. Throws Error(bad_config).
std::uint64_t parse_bytes(std::string_view text);

/// For people: "64 MiB", "1.5 GiB", "8 B", at most four digits.
std::string format_bytes(std::uint64_t nbytes);

/// A duration for people: "4 s", "12 min", "3 h", "5 days".
std::string format_duration(double time_s);

/// A whole decimal number from `least` to `most`. Throws Error(bad_config) naming the range.
int parse_int(std::string_view text, int least, int most = std::numeric_limits<int>::max());

/// A finite decimal number of at least `least` and at most `most`. Throws Error(bad_config) naming the range.
double parse_double(std::string_view text, double least, double most = std::numeric_limits<double>::max());

/// Seconds: 20, 1.5, or with a unit, 500ms, 20s, 2min, 8h; at most 30 days. Throws Error(bad_config).
double parse_duration(std::string_view text);

/// A fraction: 1% or 0.01; at least 0. Throws Error(bad_config).
double parse_fraction(std::string_view text);

/// 0 or 1, as nccl-tests' switches take; also false and true, as in YAML. Throws Error(bad_config).
bool parse_switch(std::string_view text);

/// Now as "YYYY-MM-DD HH:MM:SS" in local time.
std::string local_timestamp();

/// Seconds since 1970 of such a text; nullopt if it is none. In the hour that autumn repeats: the second time.
std::optional<std::int64_t> parse_local_timestamp(const std::string& text);

}  // namespace busbar
