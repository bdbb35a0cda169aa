#pragma once

#include "common/base/outcome.h"
#include "driver/locate/round.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace busbar {

struct SearchOptions {
  int matchings = 4;
  int confirmations = 3;
  bool full = false;       ///< every pair once, and re-tests
  bool direction = false;  ///< which way is slow
  int rails = 0;           ///< > 0: rounds for so many local indices, of the suspects
  bool halving = false;    ///< screen by groups first
  double warn = 0.90;      ///< of the median
  double fail = 0.80;
  std::uint64_t seed = 1;
  double soak_s = 0;              ///< > 0: repeat matchings for so long, for faults that come and go
  double expected_bandwidth = 0;  ///< [B/s] of a healthy pair; > 0: two units can be judged, and all being slow seen
};

/// One thing that is to blame, with the counts that say so.
struct Culprit {
  enum class What : std::uint8_t {
    unit,        ///< a node (or a rank)
    link,        ///< between the two units
    one_of_two,  ///< one of these; the data cannot tell which
    contention,  ///< slow only while others run: the fabric between, not the units
  };
  enum class Side : std::uint8_t { unknown, both, transmit, receive };
  What what = What::unit;
  std::vector<int> units;
  Side side = Side::unknown;
  int rail = -1;  ///< the only slow one; -1: not known, or several
  bool intermittent = false;
  int slow_partners = 0;  ///< of `partners` met
  int partners = 0;
  int failed_confirmations = 0;  ///< of `confirmations`
  int confirmations = 0;
  double ratio = 0;             ///< of the median: mean over the slow measurements
  double ratio_error = 0;       ///< standard deviation of these
  double alone_ratio = 0;       ///< of the median, while nothing else ran; 0: not tried
  std::vector<int> slow_rails;  ///< of the rails tried, those that are slow
  double over_time = 0;         ///< known by its dips alone: what it reaches over time, of what others do; else 0
  Outcome outcome = Outcome::fail;
};

/// What a search found.
struct LocateFinding {
  Outcome outcome = Outcome::pass;  ///< pass, warn, fail, inconclusive; skip: nothing to compare (one or two units)
  std::vector<Culprit> culprits;    ///< worst first
  std::string reason;               ///< for inconclusive and skip; beside culprits: why there may be more
  int rounds = 0;                   ///< all that were run
  int calibration_rounds = 0;       ///< of these, for the noise
  int alone_rounds = 0;             ///< of these, to tell contention from a fault
  double noise = 0;                 ///< coefficient of variation of the calibration
  double threshold = 0;             ///< below which a measurement is slow, of the median
  double median_bandwidth = 0;      ///< [B/s] over the pairs of units that are good: what ratios are of
  double slow_share = 0;            ///< of the measurements between good units: p, the rate of false alarms of one
  double expected_false = 0;        ///< units that would be blamed by chance, N p^k P(most of m): acceptance.md 4.3
};

/// The search as a machine without a clock or a network: ask for a round, measure it, tell the result. Used by
/// `locate`, by accept's pairs, and by the simulator of its tests. Equal seeds and equal measurements give equal
/// rounds.
class Search {
 public:
  Search(int nunits, const SearchOptions& options);
  Search(Search&&) noexcept;
  Search& operator=(Search&&) noexcept;
  ~Search();

  /// The next round; nothing when the search is over. `elapsed_s` since the start, for soak_s.
  std::optional<LocateRound> next(double elapsed_s = 0);
  /// Its result, one measurement per group in order. A bandwidth of 0 or NaN: not measured, which is not slow.
  void add(std::span<const GroupMeasurement> measured);

  LocateFinding finding() const;

  /// Every pair that was measured in both directions at once, for the matrix: the median over its measurements [B/s].
  struct Cell {
    int a = 0;
    int b = 0;
    double bandwidth = 0;
    int measurements = 0;
    bool one_way = false;  ///< from a to b
  };
  std::vector<Cell> matrix() const;

  /// Rounds that are sure to come or likely, for estimates before the start.
  int planned_rounds() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace busbar
