#pragma once

#include "kernels/host.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace busbar {

/// Why a receive buffer is wrong, as far as its contents prove it.
enum class Cause : std::uint8_t {
  undetermined,          ///< the data do not say; never a guess
  missing_contribution,  ///< rank `rank` did not enter the reduction, or its block never arrived
  doubled_contribution,  ///< rank `rank` entered the reduction twice
  stale,                 ///< holds the right answer to an earlier case
  shifted,               ///< holds the right data moved by `shift` elements
  wrong_source,          ///< holds rank `rank`'s data where another's belongs
  guard_overwritten,     ///< bytes outside the buffer were written
  bit_flips,             ///< single bits differ, in few elements
};

inline constexpr std::array<std::string_view, 8> kCauseNames{
    "undetermined", "missing_contribution", "doubled_contribution", "stale",
    "shifted",      "wrong_source",         "guard_overwritten",    "bit_flips"};
constexpr std::string_view name(Cause cause) { return kCauseNames[static_cast<std::size_t>(cause)]; }

struct WrongDataCause {
  Cause cause = Cause::undetermined;
  int rank = -1;           ///< the rank to suspect, or -1
  std::int64_t shift = 0;  ///< [elements], got[i] == want[i - shift]
  std::string text;        ///< one phrase for people: "missing contribution of rank 3"
};

/// A window of a wrong receive buffer in host memory, and what it should hold.
struct WrongData {
  const Pattern& pattern;
  std::span<const Block> blocks;  ///< what the rank must receive
  const void* recv;               ///< elements [first, first + count) of the receive part
  std::size_t first = 0;
  std::size_t count = 0;
  std::span<const std::uint64_t> earlier_seeds;  ///< seeds of earlier cases of the same shape, newest first
};

/// Explains wrong data from a sample of at most a few hundred wrong elements: O(nranks) per sampled element. A cause is
/// named only if it explains every sampled wrong element and no other cause or rank does.
WrongDataCause find_cause(const WrongData& wrong);

/// The element's value as people read it ("-3", "0x7fc00000 (nan)", "2.5").
std::string format_element(DType dtype, std::uint64_t bits);

}  // namespace busbar
