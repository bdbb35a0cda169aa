#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace busbar {

// How much of what others wrote is taken: files, answers and messages that are damaged, hostile, or not what they were
// taken for end with a sentence instead of a crash or a full memory. Whatever this suite writes stays far below.

/// Levels of lists and objects in JSON and YAML. Whoever copies, writes out or destroys a value calls itself once per
/// level, and ten thousand levels are the end of a stack; documents of ours have ten.
inline constexpr std::size_t kDeepestInput = 64;

/// [bytes] of a file that is read as a whole: -J of a sweep with ten million iterations in it (-I) has less.
inline constexpr std::uint64_t kMostFileBytes = std::uint64_t{512} << 20;

/// [bytes] of YAML, which people write; yaml-cpp's time is not linear in it.
inline constexpr std::size_t kMostYamlBytes = std::size_t{1} << 20;

/// Values in a JSON document: "[0,0,..." takes eight times as much memory as it has bytes.
inline constexpr std::size_t kMostJsonValues = std::size_t{1} << 25;

/// Members of one JSON object: the time to read it is not linear in them, because their order is kept.
inline constexpr std::size_t kMostJsonMembers = std::size_t{1} << 14;

/// [bytes] of one JSON text; the longest of ours is an acceptance plan.
inline constexpr std::size_t kMostJsonText = std::size_t{16} << 20;

/// A whole file; throws Error(bad_config) saying what it was to be, also where it holds more than `most_bytes`, which a
/// device or a pipe may do without an end. For process 0: the others get the text from it.
std::string read_file(const std::string& path, const std::string& what, std::uint64_t most_bytes = kMostFileBytes);

}  // namespace busbar
