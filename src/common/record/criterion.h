#pragma once

#include "common/base/enum_words.h"

#include <cstdint>

namespace busbar {

/// What is judged. `counters` and `slow_rank` are told by `locate`, too.
enum class Criterion : std::uint8_t {
  busbw,
  ceiling,
  latency,
  wrong,
  time_spread,
  dips,
  drift,
  host_spread,
  rank_spread,
  counters,
  doctor,
  pairs,
  completed,
  platform,
  baseline,
  slow_rank,
};

/// As plans, JSON, CSV, JUnit, metrics and histories spell them: part of their formats.
inline constexpr std::array<std::string_view, 16> kCriterionWords{
    "busbw",       "ceiling",  "latency", "wrong", "time-spread", "dips",     "drift",    "host-spread",
    "rank-spread", "counters", "doctor",  "pairs", "completed",   "platform", "baseline", "slow-rank"};
static_assert(kCriterionWords[static_cast<std::size_t>(Criterion::slow_rank)] == "slow-rank");

constexpr std::string_view name(Criterion criterion) { return word(kCriterionWords, criterion); }

}  // namespace busbar
