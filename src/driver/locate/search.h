#pragma once

#include "common/record/culprit.h"
#include "driver/locate/pairing.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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
  int looks = 3;                  ///< at a unit that fails, at most kMostLooks: a busy host is not slow
  double looks_apart_s = 60;      ///< before the second of them; twice that before the third
  bool may_wait = true;           ///< false: no time for further looks, so that a failure is a WARN
  double expected_bandwidth = 0;  ///< [B/s] of a healthy pair; > 0: two units can be judged, and all being slow seen
};

/// The search as a machine without a clock or a network: ask for a round, measure it, add the result. Used by
/// `locate`, by accept's pairs, and by the simulator of its tests. Equal seeds and equal measurements give equal
/// rounds.
class Search {
 public:
  Search(int nunits, const SearchOptions& options);
  Search(Search&&) noexcept;
  ~Search();

  /// The next round; nothing when the search is over. `elapsed_s` since the start, for soak_s.
  std::optional<LocateRound> next(double elapsed_s = 0);
  /// Its result, one measurement per group in order. A bandwidth of 0 or NaN: not measured, which is not slow.
  void add(std::span<const GroupMeasurement> measured);

  LocateVerdict finding() const;

  /// Every pair that was measured in both directions at once.
  std::vector<PairCell> matrix() const;

  /// Rounds that are sure to come or likely, for estimates before the start.
  int planned_rounds() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace busbar
