#pragma once

#include "common/statistics/random.h"
#include "driver/locate/pairing.h"
#include "driver/locate/search.h"

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
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

  bool good(int end) const { return state[end] == State::good; }
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

/// Coefficient of variation of what is measured again: `repeats` holds for each pair its measurements, one per round,
/// in the order of the rounds; values that are not above 0 are left out. From the median of the differences of
/// logarithms within a pair (that of two normal values is 0.954 of their deviation), so that a few dips do not count.
/// With 8 pairs or more what a whole round has in common is taken off first. NaN if no pair was measured twice.
double noise_of_repeats(std::span<const std::vector<double>> repeats);

/// The spread of different pairs: noise and what differs between them, so never less than the noise, and known better
/// than the repeats of a few pairs. From the median absolute deviation; NaN below 6 values.
double spread_of_pairs(std::span<const double> bandwidths);

/// The median of the best quarter.
double best_quartile(std::vector<double> values);

/// How often to measure the same pairs again, for 16 differences at least: 4 times with four pairs or fewer, once
/// with 16.
int calibration_repeats(int npairs);

/// Below which share of the median a measurement is slow: `warn`, or 1 - 4 CV if noise needs it; from 10 % on, where
/// that would come to nothing, exp(-5 CV), because the noise is that of logarithms. (acceptance.md 4.2
/// has max() of the two, by which a noisier machine would have to be more even: 2 % of healthy measurements are below
/// 0.9 at a CV of 5 %. docs/evidence/locate_method.md)
double slow_threshold(double noise, double warn);

/// Above this nothing but gross faults can be detected.
constexpr double kTooNoisy = 0.10;

/// A unit that is slow again and again while matchings are repeated.
struct SoakFlag {
  int unit = 0;
  int windows = 0;  ///< of kWindows, in which its alarm rang
  int slow = 0;     ///< pairs, of `measured`
  int measured = 0;
  double ratio = 0;   ///< mean of the slow ones
  double chance = 1;  ///< units like it that luck alone would make
};

/// Watches each unit over hours of matchings: a CUSUM of -log(ratio) with drift 0.05 and alarm at 0.5, and a vote over
/// five windows of time (acceptance.md 4.3 (d); ByteRobust, arXiv 2509.16293). Memory: per unit, and per slow pair up
/// to a million of them.
class SoakWatch {
 public:
  static constexpr int kWindows = 5;
  explicit SoakWatch(int nunits);
  /// One round: its pairs, what each achieved over what is normal, `window` of 0 .. kWindows-1.
  void add(std::span<const std::pair<int, int>> pairs, std::span<const double> ratios, double threshold, int window);
  /// Alarm in 3 windows or more and slow more often than the others by more than chance; a unit's partners are not
  /// blamed for its slow pairs. Worst first.
  std::vector<SoakFlag> flags() const;

 private:
  struct Slow {
    std::int32_t a = 0;
    std::int32_t b = 0;
    float ratio = 0;
  };
  struct Unit {
    double sum = 0;
    unsigned windows = 0;  ///< a bit each
    int measured = 0;
  };
  void watch(Unit& unit, double ratio, int window) const;
  std::vector<Unit> units_;
  std::vector<Slow> slow_;
  long measured_ = 0;
};

/// What a group of more than two achieved, for --halving.
struct GroupResult {
  std::vector<int> units;
  int level = 0;
  double bandwidth = 0;
};

/// All that a search has measured.
struct SearchRecord {
  SearchRecord(int units, const SearchOptions& wanted) : nunits(units), options(wanted), soak(units) {}
  bool few() const { return nunits < 8; }
  PairEvidence score(bool one_way) const { return score_pairs(results, one_way, nunits, threshold, few()); }

  int nunits;
  SearchOptions options;
  std::vector<PairResult> results;
  std::vector<GroupResult> groups;
  SoakWatch soak;
  double noise = std::numeric_limits<double>::quiet_NaN();
  double threshold = 0;
  int rounds = 0;
  int calibration_rounds = 0;
  int alone_rounds = 0;
  int later_rounds = 0;
  int looks = 1;  ///< begun
};

/// The evidence, of its ends and links only those that fail so far and were slow in each look.
PairEvidence failing(const SearchRecord& record, bool one_way);

/// The rails on which `unit` is slow each time, against other units on the same rail, or if nobody else ran on it,
/// against its own best.
std::vector<int> slow_rails(const SearchRecord& record, int unit);

/// A group of --halving that is slow each time although none of its halves is, against the best quartile of the groups
/// of its level.
struct SlowGroup {
  std::vector<int> units;
  SlowCount measurements;
  double chance = 1;  ///< groups like it that luck alone would make, by how often those without its units are slow
};
std::vector<SlowGroup> slow_groups(const SearchRecord& record);

/// The conclusion. Pure.
LocateVerdict conclude(const SearchRecord& record);

/// A round to run, and what each of its pairs tests (PairResult::tested).
struct PlannedRound : LocateRound {  ///< groups: of `halving`, those of others are built from their pairs
  Pairs pairs = {};
  std::vector<std::int32_t> tested = {};  ///< per pair; empty: nothing
  int matching = -1;                      ///< pairs are those of this matching, made when the round comes
  bool reverse = false;                   ///< of the matching: the second sends to the first
};

/// Rounds that test each of `ends` `times` times with good partners, other ones each time as far as there are any, and
/// `links` as often as they fit in between; all other good units meet each other meanwhile, because a fabric without
/// load shows no fault of a fabric. One way, those that receive have rounds of their own.
std::vector<PlannedRound> plan_confirmations(const PairEvidence& evidence, std::span<const PairResult> results,
                                             int nunits, int times, Random& random);

/// Rounds that measure each of `links` once, under load.
std::vector<PlannedRound> plan_retests(const PairEvidence& evidence, std::span<const LinkEvidence> links, int nunits,
                                       Random& random);

/// At most `rounds` rounds with nothing but the suspects, dealt over them: each end with a good partner, each link.
std::vector<PlannedRound> plan_alone(const PairEvidence& evidence, std::span<const EndEvidence> ends,
                                     std::span<const LinkEvidence> links, int nunits, int rounds, Random& random);

/// One round per rail of `rails` with `units`, each with a good partner, and the rest of the good units for comparison.
std::vector<PlannedRound> plan_rails(const PairEvidence& evidence, std::span<const int> units,
                                     std::span<const int> rails, int nunits, Random& random);

}  // namespace busbar
