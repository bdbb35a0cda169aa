#pragma once

#include "driver/locate/round.h"
#include "driver/locate/screen_pairs.h"

#include <cstdint>
#include <span>
#include <vector>

namespace busbar {

/// One measured pair of one round, small: `--full` over 4096 units keeps 8 million of them.
struct PairResult {
  static constexpr std::int32_t kNothing = -1;  ///< part of the screen, or load beside what is tested
  static constexpr std::int32_t kThePair = -2;  ///< a slow pair again
  std::int32_t a = 0;
  std::int32_t b = 0;  ///< one way: a sends
  float bandwidth = 0;
  std::int32_t tested = kNothing;  ///< or the end that is confirmed (screen_pairs.h says what an end is)
  std::uint16_t round = 0;
  LocateRound::Kind kind = LocateRound::Kind::matching;
  bool one_way : 1 = false;
  bool dipped : 1 = false;  ///< some repetitions fell far below the others
  std::int16_t rail = -1;
  std::uint8_t sustained = 100;  ///< [%] GroupMeasurement's
};

/// Its two ends.
inline int first_end(const PairResult& result) { return result.a; }
inline int second_end(const PairResult& result, int nunits) { return result.one_way ? nunits + result.b : result.b; }

/// Part of the screen: what every unit does, nothing that is done because a unit or a pair is suspect.
inline bool of_screen(const PairResult& result) {
  using Kind = LocateRound::Kind;
  return result.kind == Kind::calibration || result.kind == Kind::matching || result.kind == Kind::full ||
         result.kind == Kind::direction || result.kind == Kind::halving;
}

/// The screen's pairs, two-way or one-way, each once: the median of its measurements, each divided by the factor of its
/// round (1 where there is none).
std::vector<MeasuredPair> pairs_of_screen(std::span<const PairResult> results, bool one_way, int nunits,
                                          std::span<const double> round_factor);

/// What each round did to all pairs of good ends, where there are 8 or more: their median over the reference. A minute
/// in which the whole cluster was slow makes nobody suspect.
std::vector<double> round_factors(std::span<const PairResult> results, bool one_way, int nunits, const Screen& screen);

}  // namespace busbar
