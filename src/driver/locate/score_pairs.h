#pragma once

#include "driver/locate/pairing.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace busbar {

// Ends of a pair. Both ways at once an end is a unit; one way, unit u is the end u as a sender and nunits + u as a
// receiver, so that the same counting reads rows (a sender), columns (a receiver) and cells (a path) of the directed
// matrix, as C4 does (arXiv 2406.04594).

/// A pair of ends and what it achieved, the median if it was measured more than once. No pair appears twice.
struct MeasuredPair {
  int a = 0;
  int b = 0;
  double bandwidth = 0;  ///< [B/s], above 0
};

/// Which ends are good and which are suspect, from pairs that are measured once each.
struct Screen {
  enum class State : std::uint8_t { unknown, good, suspect };
  double reference = 0;         ///< [B/s] median of the pairs whose ends are both good
  std::vector<double> score;    ///< per end: its best pair; from 8 pairs on the upper eighth; NaN if there is none
  std::vector<State> state;     ///< per end
  std::vector<int> slow_pairs;  ///< indices of pairs below the threshold whose ends are both good
  double faster_share = 0;      ///< ends whose score is so far above the reference as a slow one is below

  bool good(int end) const { return state[static_cast<std::size_t>(end)] == State::good; }
};

/// `threshold`: of the reference, below which a pair is slow. An end is suspect when even its best pairs are slow: a
/// slow partner or a passing dip spoils one of its pairs, not all. `few`: fewer than 8 units: one slow unit
/// spoils so many pairs that only the best quartile of them can be what is normal (acceptance.md 4.3).
Screen screen_pairs(std::span<const MeasuredPair> pairs, int nends, double threshold, bool few);

/// One measured pair of one round, small: `--full` over 4096 units keeps 8 million of them.
struct PairResult {
  static constexpr std::int32_t kNothing = -1;  ///< part of the screen, or load next to what is tested
  static constexpr std::int32_t kThePair = -2;  ///< a slow pair again
  std::int32_t a = 0;
  std::int32_t b = 0;  ///< one way: a sends
  float bandwidth = 0;
  std::int32_t tested = kNothing;  ///< or the end that is confirmed (see the top of this file)
  std::uint16_t round = 0;
  LocateRound::Kind kind = LocateRound::Kind::matching;
  bool one_way : 1 = false;
  bool dipped : 1 = false;  ///< some repetitions fell far below the others
  std::int16_t rail = -1;
  std::uint8_t sustained = 100;  ///< [%] GroupMeasurement's
  std::uint8_t look = 0;         ///< 0: the first; later ones are counted by themselves
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

/// The most units blamed by chance that a search may expect: one is blamed only if (how many there are) x
/// (probability of so many slow measurements at the rate at which good pairs are slow) stays below.
constexpr double kFalseSuspects = 0.01;
/// The same for findings with fewer measurements, which one more dip would imitate: a unit that is slow only at times,
/// which --soak shows better, and a single pair, which --full does.
constexpr double kFalseAlarms = 1e-4;

/// The same for dips that alone make a failure and not a warning.
constexpr double kFalseFailures = 1e-6;

/// Slow measurements and their mean.
struct SlowCount {
  int measured = 0;
  int slow = 0;
  double sum = 0;  ///< of the slow ones' ratios
  double squares = 0;
  void add(double ratio, bool is_slow);
  double mean() const;
  double deviation() const;
};

/// What the looks after the first say.
using LaterLooks = std::array<SlowCount, kMostLooks - 1>;

/// What is known of an end that was suspect, or slow or dipping more often than the others.
struct EndEvidence {
  int end = 0;
  bool suspect = false;     ///< all its pairs were slow
  SlowCount pairs;          ///< of the screen, with partners that are not suspect themselves
  SlowCount confirmations;  ///< under the load of all others
  SlowCount alone;
  double alone_ratio = 0;  ///< mean; 0: not tried
  int dipped = 0;          ///< measurements with dips, of `measured`
  int measured = 0;
  double chance = 1;      ///< ends like this one that luck alone would make
  double dip_chance = 1;  ///< the same, of the dips
  int dipped_again = 0;   ///< of the confirmations
  double sustained = 1;   ///< over all its measurements, dips included, of what others sustain
  LaterLooks later;       ///< its tests there, slow ones and dips
  bool slow() const { return suspect && 2 * confirmations.slow > confirmations.measured; }
  bool blamed() const { return slow() && chance <= kFalseSuspects; }
  /// Slow too often for chance, but not always.
  bool comes_and_goes() const;
};

/// What is known of a slow pair whose ends are both good.
struct LinkEvidence {
  int a = 0;  ///< ends
  int b = 0;
  SlowCount measurements;  ///< the screen's, and each time it was measured again
  SlowCount alone;
  LaterLooks later;
  double alone_ratio = 0;
  double chance = 1;
  bool always_slow() const { return measurements.slow == measurements.measured; }
  bool blamed() const { return always_slow() && measurements.measured >= 3 && chance <= kFalseAlarms; }
};

/// All of it, of the measurements both ways at once or of those one way.
struct PairEvidence {
  bool one_way = false;
  Screen screen;
  std::vector<MeasuredPair> pairs;
  double slow_share =
      0;  ///< of the measurements between ends that are beyond suspicion, never 0: (slow + 1/2) / (n + 1)
  int good_measurements = 0;
  std::vector<EndEvidence> ends;
  std::vector<LinkEvidence> links;
};

/// Pure: the same results, the same evidence. `few`: as screen_pairs.
PairEvidence score_pairs(std::span<const PairResult> results, bool one_way, int nunits, double threshold, bool few);

}  // namespace busbar
