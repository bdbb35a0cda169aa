#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace busbar {

// Limits for untrusted input: files, answers and messages that are damaged, hostile or of another kind end with a
// message instead of a crash or a full memory. What this suite writes stays far below.

/// Levels of lists and objects in JSON and YAML. Code that copies, writes out or destroys a value recurses once per
/// level, and ten thousand levels overflow a stack; our documents have ten.
inline constexpr std::size_t kDeepestInput = 64;

/// [bytes] of a file that is read as a whole: -J of a sweep with ten million iterations (-I) is smaller.
inline constexpr std::uint64_t kMostFileBytes = std::uint64_t{512} << 20;

/// [bytes] of YAML, which people write; yaml-cpp's time is not linear in it.
inline constexpr std::size_t kMostYamlBytes = std::size_t{1} << 20;

/// Values in a JSON document: "[0,0,..." takes eight times as much memory as it has bytes.
inline constexpr std::size_t kMostJsonValues = std::size_t{1} << 25;

/// Members of one JSON object: the time to read it is not linear in them, because their order is kept.
inline constexpr std::size_t kMostJsonMembers = std::size_t{1} << 14;

/// [bytes] of one JSON string; our longest one is an acceptance plan.
inline constexpr std::size_t kMostJsonText = std::size_t{16} << 20;

/// The next bytes of a document, which live until the next call; empty: there are no more.
using NextBytes = std::function<std::string_view()>;

/// A whole regular file. Throws Error(bad_config) that names `what` it is, also if it holds more than `most_bytes`, or
/// is a pipe or a device, which may have no end. For process 0: the others get the text from it.
std::string read_file(const std::string& path, const std::string& what, std::uint64_t most_bytes = kMostFileBytes);

}  // namespace busbar
