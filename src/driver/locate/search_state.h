#pragma once

#include "common/statistics/random.h"
#include "driver/locate/noise.h"
#include "driver/locate/pairing.h"
#include "driver/locate/plan_rounds.h"
#include "driver/locate/search_record.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

namespace busbar {

/// Of a Search: what is to be run next and what was found so far.
struct Search::Impl {
  using Kind = LocateRound::Kind;
  enum class Stage : std::uint8_t { screen, confirm, retest, alone, groups, rails, rails_again, soak, over };
  /// How often the two directions of a single pair are measured.
  static constexpr int kDirectionsOfOnePair = 3;

  Impl(int nunits, const SearchOptions& options)
      : record(nunits, options),
        random(options.seed),
        matchings(nunits, random.below(std::uint64_t{1} << 62)),
        levels(options.halving && nunits >= 8 ? halving_levels(nunits, random.below(std::uint64_t{1} << 62))
                                              : std::vector<std::vector<std::vector<int>>>()) {
    record.threshold = options.warn;
    if (nunits >= 2) plan_screen();
  }

  int screen_matchings() const {
    if (!levels.empty()) return 0;
    const bool all = record.few() || record.options.full;
    return all ? matchings.size() : std::min(record.options.matchings, matchings.size());
  }
  int directed_matchings() const {
    if (record.nunits == 2) return kDirectionsOfOnePair;
    if (!record.options.direction) return 0;
    return record.few() ? matchings.size() : std::min(record.options.matchings, matchings.size());
  }
  /// How many rounds are measured again for the noise: the first; with few units all, whose pairs are then medians.
  int calibrated_rounds() const { return record.few() && levels.empty() ? matchings.size() : 1; }
  int calibrations() const {
    if (record.few() && record.nunits > 2) return record.nunits < 7 ? 2 : 1;
    const std::size_t npairs = levels.empty() ? static_cast<std::size_t>(record.nunits) / 2 : levels.back().size();
    return calibration_repeats(static_cast<int>(npairs));
  }

  int to_calibrate() const { return calibrated_rounds() * (1 + calibrations()); }

  void plan_screen();
  PlannedRound of_level(std::size_t level, Kind kind) const;
  PlannedRound of_matching(int matching, Kind kind, bool one_way = false, bool reverse = false) const;
  void plan_more(double elapsed_s);
  void plan_confirm();
  void plan_retest();
  void plan_alone_rounds();
  void plan_groups();
  void plan_rail_rounds();
  void plan_rails_again();
  void plan_soak(double elapsed_s);
  std::vector<int> units_for_rails() const;
  void push(std::vector<PlannedRound> rounds) {
    for (PlannedRound& round : rounds) planned.push_back(std::move(round));
  }

  void sharpen_noise();
  void calibrate(std::span<const GroupMeasurement> measured);
  void keep(std::span<const GroupMeasurement> measured);
  void keep_soak(std::span<const GroupMeasurement> measured);

  SearchRecord record;
  Random random;
  DisjointMatchings matchings;
  std::vector<std::vector<std::vector<int>>> levels;
  std::deque<PlannedRound> planned;
  PlannedRound current;
  LocateRound asked;
  Stage stage = Stage::screen;
  std::vector<std::vector<double>> repeats;  ///< per group of the rounds that are repeated
  int first_rounds = 0;                      ///< how many of these ran
  int soak_window = 0;
  bool soaking = false;
};

}  // namespace busbar
