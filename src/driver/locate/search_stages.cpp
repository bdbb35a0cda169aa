#include "driver/locate/search_state.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace busbar {
namespace {

/// Above this share of slow pairs between good units none of them is a fault of its own.
constexpr double kHopeless = 0.25;
/// A pair that is slow each time is measured again until chance is excluded, but not for ever.
constexpr int kMostRetests = 7;
/// How often groups are measured again that were slow although none of their halves was.
constexpr int kGroupRetests = 3;

}  // namespace

PlannedRound Search::Impl::of_matching(int matching, Kind kind, bool one_way, bool reverse) const {
  PlannedRound round;
  round.kind = kind;
  round.matching = matching;
  round.one_way = one_way;
  round.reverse = reverse;
  return round;
}

PlannedRound Search::Impl::of_level(std::size_t level, Kind kind) const {
  PlannedRound round;
  round.kind = kind;
  round.groups = levels[level];
  return round;
}

void Search::Impl::plan_screen() {
  // What is repeated for the noise is part of the screen: its own measurement is one of them.
  const Kind kind = record.few() || record.options.full ? Kind::full : Kind::matching;
  for (int pass = 0; pass <= calibrations(); ++pass) {
    for (int i = 0; i < calibrated_rounds(); ++i) {
      planned.push_back(levels.empty() ? of_matching(i, pass == 0 ? kind : Kind::calibration)
                                       : of_level(levels.size() - 1, pass == 0 ? Kind::halving : Kind::calibration));
    }
  }
  for (int i = calibrated_rounds(); i < screen_matchings(); ++i) planned.push_back(of_matching(i, kind));
  for (std::size_t i = 0; i + 1 < levels.size(); ++i) planned.push_back(of_level(i, Kind::halving));
  for (int i = 0; i < directed_matchings(); ++i) {
    for (const bool reverse : {false, true}) {
      planned.push_back(of_matching(i % matchings.size(), Kind::direction, true, reverse));
    }
  }
}

void Search::Impl::plan_more(double elapsed_s) {
  while (planned.empty() && stage != Stage::over) {
    switch (stage) {
      case Stage::screen:
        sharpen_noise();
        if (record.nunits > 2) plan_confirm();
        stage = record.nunits > 2 ? Stage::confirm : Stage::rails_again;
        break;
      case Stage::confirm:
        stage = Stage::retest;
        break;
      case Stage::retest:
        plan_retest();
        if (planned.empty()) {
          plan_alone_rounds();
          stage = Stage::alone;
        }
        break;
      case Stage::alone:
        plan_groups();
        stage = Stage::groups;
        break;
      case Stage::groups:
        plan_rail_rounds();
        stage = Stage::rails;
        break;
      case Stage::rails:
        plan_rails_again();
        stage = Stage::rails_again;
        break;
      case Stage::rails_again:
        stage = Stage::soak;
        break;
      case Stage::soak:
        plan_soak(elapsed_s);
        if (planned.empty()) stage = Stage::over;
        break;
      case Stage::over:
        break;
    }
  }
}

void Search::Impl::plan_confirm() {
  for (const bool one_way : {false, true}) {
    PairEvidence evidence = record.weigh(one_way);
    if (evidence.slow_share > kHopeless && evidence.good_measurements >= 8) evidence.links.clear();
    push(plan_confirmations(evidence, record.results, record.nunits, record.options.confirmations, random));
  }
}

void Search::Impl::plan_retest() {
  // With few units or all pairs it is the pairs that are asked about; after four matchings only what fits in between.
  if (!record.few() && !record.options.full) return;
  for (const bool one_way : {false, true}) {
    const PairEvidence evidence = record.weigh(one_way);
    if (evidence.slow_share > kHopeless && evidence.good_measurements >= 8) continue;
    std::vector<LinkEvidence> open;
    for (const LinkEvidence& link : evidence.links) {
      const int times = link.measurements.measured;
      if (link.always_slow() && times <= kMostRetests && !link.blamed()) open.push_back(link);
    }
    push(plan_retests(evidence, open, record.nunits, random));
  }
}

void Search::Impl::plan_alone_rounds() {
  constexpr int kMostRounds = 4;
  for (const bool one_way : {false, true}) {
    const PairEvidence evidence = record.weigh(one_way);
    std::vector<EndEvidence> ends;
    std::vector<LinkEvidence> links;
    for (const EndEvidence& end : evidence.ends) {
      if (end.slow()) ends.push_back(end);
    }
    for (const LinkEvidence& link : evidence.links) {
      if (link.always_slow() && link.measurements.measured >= 3) links.push_back(link);
    }
    push(plan_alone(evidence, ends, links, record.nunits, kMostRounds, random));
  }
}

void Search::Impl::plan_groups() {
  const std::vector<SlowGroup> slow = slow_groups(record);
  for (std::size_t level = 0; level + 1 < levels.size(); ++level) {
    const bool again = std::any_of(slow.begin(), slow.end(), [&](const SlowGroup& group) {
      return std::find(levels[level].begin(), levels[level].end(), group.units) != levels[level].end();
    });
    for (int i = 0; again && i < kGroupRetests; ++i) planned.push_back(of_level(level, Kind::halving));
  }
}

std::vector<int> Search::Impl::units_for_rails() const {
  std::vector<int> units;
  for (const Culprit& culprit : conclude(record).culprits) {
    if (culprit.what == Culprit::What::unit) units.push_back(culprit.units.front());
  }
  return units;
}

void Search::Impl::plan_rail_rounds() {
  if (record.options.rails <= 0 || record.nunits < 3) return;
  std::vector<int> rails(static_cast<std::size_t>(record.options.rails));
  std::iota(rails.begin(), rails.end(), 0);
  const std::vector<int> units = units_for_rails();
  if (!units.empty()) push(plan_rails(record.weigh(false), units, rails, record.nunits, random));
}

void Search::Impl::plan_rails_again() {
  if (record.options.rails <= 0 || record.nunits < 3) return;
  std::vector<int> rails;
  const std::vector<int> units = units_for_rails();
  for (const int unit : units) {
    for (const int rail : slow_rails(record, unit)) rails.push_back(rail);
  }
  std::sort(rails.begin(), rails.end());
  rails.erase(std::unique(rails.begin(), rails.end()), rails.end());
  push(plan_rails(record.weigh(false), units, rails, record.nunits, random));
}

void Search::Impl::plan_soak(double elapsed_s) {
  const double soak_s = record.options.soak_s;
  if (soak_s <= 0 || elapsed_s >= soak_s || record.nunits < 3) return;  // of two it would be both, always
  soaking = true;
  soak_window = std::clamp(static_cast<int>(SoakWatch::kWindows * elapsed_s / soak_s), 0, SoakWatch::kWindows - 1);
  PlannedRound round;
  round.kind = Kind::matching;
  round.pairs = random_matching(record.nunits, random.below(std::uint64_t{1} << 62));
  planned.push_back(std::move(round));
}

}  // namespace busbar
