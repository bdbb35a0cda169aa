#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace busbar {

/// The reduction operations, in the order in which `-o all` visits them.
/// mulsum multiplies each rank's elements by kMulsumFactor before they are added (ncclRedOpCreatePreMulSum).
enum class Op : std::uint8_t { sum, prod, max, min, avg, mulsum };

inline constexpr std::array kAllOps{Op::sum, Op::prod, Op::max, Op::min, Op::avg, Op::mulsum};

/// The scalar of mulsum on every rank: a power of two, so that no dtype rounds.
inline constexpr int kMulsumFactor = 2;

inline constexpr std::array<std::string_view, 6> kOpNames{"sum", "prod", "max", "min", "avg", "mulsum"};
static_assert(kOpNames.size() == kAllOps.size());

constexpr std::string_view name(Op op) { return kOpNames[static_cast<std::size_t>(op)]; }

/// The operation of that name (lower case); null if there is none.
constexpr std::optional<Op> parse_op(std::string_view text) {
  for (Op op : kAllOps) {
    if (name(op) == text) return op;
  }
  return std::nullopt;
}

inline constexpr std::string_view kOpChoices = "sum prod max min avg mulsum all";

}  // namespace busbar
