#include "driver/locate/search.h"

#include "common/base/lists.h"
#include "common/statistics/interval.h"
#include "common/statistics/random.h"
#include "driver/locate/search_record.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <deque>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace busbar {
namespace {

/// Above this share of slow pairs between good units none of them is a fault of its own.
constexpr double kHopeless = 0.25;
/// A pair that is slow each time is measured again until chance is excluded, but not forever.
constexpr int kMostRetests = 7;
/// How often slow groups are measured again although none of their halves was slow.
constexpr int kGroupRetests = 3;

using Kind = LocateRound::Kind;

bool was_measured(const GroupMeasurement& group) {
  const auto kept = static_cast<float>(group.bandwidth);  // as PairResult keeps it
  return kept > 0 && !std::isinf(kept);
}

}  // namespace

/// Of a Search: what runs next and what was found so far.
struct Search::Impl {
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

  void plan_screen() {
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
      for (const bool reverse : {false, true})
        planned.push_back(of_matching(i % matchings.size(), Kind::direction, true, reverse));
    }
  }

  PlannedRound of_level(std::size_t level, Kind kind) const {
    return {LocateRound{.kind = kind, .groups = levels[level]}};
  }

  static PlannedRound of_matching(int matching, Kind kind, bool one_way = false, bool reverse = false) {
    return {LocateRound{.kind = kind, .one_way = one_way}, {}, {}, matching, reverse};
  }

  void plan_more(double elapsed_s) {
    /// What follows the screen; some plan until they have nothing to add to what they have measured.
    struct Step {
      void (Impl::*plan)();
      bool again = false;
    };
    static constexpr std::array kSteps{
        Step{&Impl::sharpen_noise},     Step{&Impl::plan_confirm},     Step{&Impl::plan_retest, true},
        Step{&Impl::plan_alone_rounds}, Step{&Impl::plan_groups},      Step{&Impl::plan_rail_rounds},
        Step{&Impl::plan_rails_again},  Step{&Impl::plan_again, true}, Step{&Impl::plan_soak, true}};
    now_s = elapsed_s;
    const std::size_t nsteps = record.nunits > 2 ? kSteps.size() : 1;  // of two units it would be both, always
    while (planned.empty() && next_step < nsteps) {
      (this->*kSteps[next_step].plan)();
      if (planned.empty() || !kSteps[next_step].again) ++next_step;
    }
  }

  void plan_confirm() {
    for (const bool one_way : {false, true}) {
      PairEvidence evidence = record.score(one_way);
      if (evidence.slow_share > kHopeless && evidence.good_measurements >= 8) evidence.links.clear();
      push(plan_confirmations(evidence, record.results, record.nunits, record.options.confirmations, random));
    }
  }

  void plan_retest() {
    // With few units or all pairs, pairs are the question; after four matchings only what fits in between.
    if (!record.few() && !record.options.full) return;
    for (const bool one_way : {false, true}) {
      const PairEvidence evidence = record.score(one_way);
      if (evidence.slow_share > kHopeless && evidence.good_measurements >= 8) continue;
      std::vector<LinkEvidence> open;
      for (const LinkEvidence& link : evidence.links) {
        const int times = link.measurements.measured;
        if (link.always_slow() && times <= kMostRetests && !link.blamed()) open.push_back(link);
      }
      push(plan_retests(evidence, open, record.nunits, random));
    }
  }

  void plan_alone_rounds() {
    constexpr int kMostRounds = 4;
    for (const bool one_way : {false, true}) {
      const PairEvidence evidence = record.score(one_way);
      std::vector<EndEvidence> ends = evidence.ends;
      std::vector<LinkEvidence> links = evidence.links;
      std::erase_if(ends, [](const EndEvidence& end) { return !end.slow(); });
      std::erase_if(links, [](const LinkEvidence& l) { return !l.always_slow() || l.measurements.measured < 3; });
      push(plan_alone(evidence, ends, links, record.nunits, kMostRounds, random));
    }
  }

  void plan_groups() {
    const std::vector<SlowGroup> slow = slow_groups(record);
    for (std::size_t level = 0; level + 1 < levels.size(); ++level) {
      const bool again =
          std::ranges::any_of(slow, [&](const SlowGroup& group) { return contains(levels[level], group.units); });
      for (int i = 0; again && i < kGroupRetests; ++i) planned.push_back(of_level(level, Kind::halving));
    }
  }

  void plan_rail_rounds() {
    if (record.options.rails <= 0) return;
    std::vector<int> rails(static_cast<std::size_t>(record.options.rails));
    std::iota(rails.begin(), rails.end(), 0);
    const std::vector<int> units = units_for_rails();
    if (!units.empty()) push(plan_rails(record.score(false), units, rails, record.nunits, random));
  }

  void plan_rails_again() {
    if (record.options.rails <= 0) return;
    const std::vector<int> units = units_for_rails();
    std::set<int> slow;
    for (const int unit : units) {
      for (const int rail : slow_rails(record, unit)) slow.insert(rail);
    }
    const std::vector<int> rails(slow.begin(), slow.end());
    push(plan_rails(record.score(false), units, rails, record.nunits, random));
  }

  /// A unit that FAILs is tested again a minute later, and once more after two: a spell of other work makes all rounds
  /// of one look slow, and in every fiftieth search one of 64 hosts is busy for both minutes.
  void plan_again() {
    const SearchOptions& options = record.options;
    if (!options.may_wait || record.looks >= std::min(options.looks, kMostLooks)) return;
    std::set<int> again;
    for (const bool one_way : {false, true}) {
      const PairEvidence evidence = failing(record, one_way);
      for (const EndEvidence& end : evidence.ends) again.insert(end.end % record.nunits);
      for (const LinkEvidence& link : evidence.links) again.insert({link.a % record.nunits, link.b % record.nunits});
      push(plan_confirmations(evidence, record.results, record.nunits, options.confirmations, random));
    }
    if (planned.empty()) return;
    for (PlannedRound& round : planned) round.look = record.looks;
    planned.front().wait_s = options.looks_apart_s * record.looks;
    planned.front().again.assign(again.begin(), again.end());
    ++record.looks;
  }

  void plan_soak() {
    const double soak_s = record.options.soak_s;
    if (soak_s <= 0 || now_s >= soak_s) return;
    soaking = true;
    soak_window = std::clamp(static_cast<int>(SoakWatch::kWindows * now_s / soak_s), 0, SoakWatch::kWindows - 1);
    planned.push_back(
        {LocateRound{.kind = Kind::matching}, random_matching(record.nunits, random.below(std::uint64_t{1} << 62))});
  }

  std::vector<int> units_for_rails() const {
    std::vector<int> units;
    for (const Culprit& culprit : conclude(record).culprits) {
      if (culprit.what == Culprit::What::unit) units.push_back(culprit.units.front());
    }
    return units;
  }

  void push(std::vector<PlannedRound> rounds) {
    for (PlannedRound& round : rounds) planned.push_back(std::move(round));
  }

  /// A few repeats show the noise to a third of it. All pairs of good units show more: they spread by the noise and by
  /// what differs between them, so the noise is the less of the two.
  void sharpen_noise() {
    const Screen screen = record.score(false).screen;
    std::vector<double> bandwidths;
    for (const PairResult& result : record.results) {
      const bool once = !result.one_way && of_screen(result) && result.kind != Kind::calibration;
      if (once && screen.good(result.a) && screen.good(result.b))
        bandwidths.push_back(static_cast<double>(result.bandwidth));
    }
    const double spread = spread_of_pairs(bandwidths);
    if (!(spread < record.noise)) return;
    record.noise = spread;
    record.threshold = slow_threshold(spread, record.options.warn);
  }

  void calibrate(std::span<const GroupMeasurement> measured) {
    const std::size_t first = static_cast<std::size_t>(first_rounds % calibrated_rounds()) * current.groups.size();
    repeats.resize(std::max(repeats.size(), first + current.groups.size()));
    for (std::size_t i = 0; i < measured.size(); ++i)
      repeats[first + i].push_back(was_measured(measured[i]) ? measured[i].bandwidth : 0);
    if (++first_rounds < to_calibrate()) return;
    record.noise = noise_of_repeats(repeats);
    record.threshold = slow_threshold(record.noise, record.options.warn);
  }

  void keep(std::span<const GroupMeasurement> measured) {
    for (std::size_t i = 0; i < measured.size(); ++i) {
      if (!was_measured(measured[i])) continue;
      const std::vector<int>& units = current.groups[i];
      if (!levels.empty() && current.kind == Kind::halving) {
        const auto level = std::ranges::find_if(levels, [&](const auto& groups) { return groups == current.groups; });
        record.groups.push_back({units, static_cast<int>(level - levels.begin()), measured[i].bandwidth});
      }
      if (units.size() > 3) continue;
      PairResult result;
      result.bandwidth = static_cast<float>(measured[i].bandwidth);
      result.tested = current.tested.empty() ? PairResult::kNothing : current.tested[i];
      result.round = static_cast<std::uint16_t>(std::min(record.rounds - 1, 65535));
      result.kind = current.kind;
      result.one_way = current.one_way;
      result.dipped = measured[i].dips > 0;
      result.rail = static_cast<std::int16_t>(current.rail);
      result.look = static_cast<std::uint8_t>(current.look);
      result.sustained = static_cast<std::uint8_t>(std::lround(100 * std::clamp(measured[i].sustained, 0.0, 1.0)));
      // A last group of three is as slow as the slowest of its links: each of its pairs is suspect with it.
      for (std::size_t first = 0; first < units.size(); ++first) {
        for (std::size_t second = first + 1; second < units.size(); ++second) {
          result.a = units[first];
          result.b = units[second];
          record.results.push_back(result);
        }
      }
    }
  }

  void keep_soak(std::span<const GroupMeasurement> measured) {
    Pairs pairs;
    std::vector<double> values;
    for (std::size_t i = 0; i < measured.size(); ++i) {
      if (!was_measured(measured[i])) continue;
      pairs.emplace_back(current.groups[i][0], current.groups[i][1]);
      values.push_back(measured[i].bandwidth);
    }
    if (values.empty()) return;
    // With many pairs the round's own median is what is normal in this minute.
    constexpr std::size_t kEnough = 8;
    const double normal = values.size() >= kEnough ? median(values) : record.score(false).screen.reference;
    for (double& value : values) value /= normal;
    record.soak.add(pairs, values, record.threshold, soak_window);
  }

  SearchRecord record;
  Random random;
  DisjointMatchings matchings;
  std::vector<std::vector<std::vector<int>>> levels;
  std::deque<PlannedRound> planned;
  PlannedRound current;
  std::size_t next_step = 0;                 ///< of plan_more()
  double now_s = 0;                          ///< since the start
  std::vector<std::vector<double>> repeats;  ///< per group of the rounds that are repeated
  int first_rounds = 0;                      ///< how many of these ran
  int soak_window = 0;
  bool soaking = false;
};

Search::Search(int nunits, const SearchOptions& options) : impl_(std::make_unique<Impl>(nunits, options)) {}
Search::Search(Search&&) noexcept = default;
Search::~Search() = default;

std::optional<LocateRound> Search::next(double elapsed_s) {
  Impl& self = *impl_;
  self.plan_more(elapsed_s);
  if (self.planned.empty()) return std::nullopt;
  self.current = std::move(self.planned.front());
  self.planned.pop_front();
  PlannedRound& round = self.current;
  if (round.matching >= 0) round.pairs = self.matchings.at(round.matching);
  for (const auto& [a, b] : round.pairs) {
    round.groups.push_back(round.reverse ? std::vector<int>{b, a} : std::vector<int>{a, b});
  }
  return static_cast<const LocateRound&>(round);
}

void Search::add(std::span<const GroupMeasurement> measured) {
  Impl& self = *impl_;
  const std::span<const GroupMeasurement> known = measured.first(std::min(measured.size(), self.current.groups.size()));
  ++self.record.rounds;
  if (self.current.kind == Kind::calibration) ++self.record.calibration_rounds;
  if (self.current.kind == Kind::alone) ++self.record.alone_rounds;
  if (self.current.look > 0) ++self.record.later_rounds;
  if (self.soaking) {
    self.keep_soak(known);
    return;
  }

  self.keep(known);
  if (self.first_rounds < self.to_calibrate()) self.calibrate(known);
}

LocateVerdict Search::finding() const { return conclude(impl_->record); }

std::vector<PairCell> Search::matrix() const {
  std::vector<PairResult> results = impl_->record.results;
  std::erase_if(results, [](const PairResult& r) { return r.kind == Kind::alone || r.kind == Kind::rail; });
  const auto key = [](const PairResult& r) { return std::tuple(r.one_way, r.a, r.b); };
  std::ranges::sort(results, [&](const PairResult& x, const PairResult& y) { return key(x) < key(y); });
  std::vector<PairCell> cells;
  for (std::size_t first = 0; first < results.size();) {
    std::vector<double> values;
    std::size_t end = first;
    for (; end < results.size() && key(results[end]) == key(results[first]); ++end)
      values.push_back(static_cast<double>(results[end].bandwidth));
    cells.push_back(
        {results[first].a, results[first].b, median(values), static_cast<int>(values.size()), results[first].one_way});
    first = end;
  }

  return cells;
}

int Search::planned_rounds() const {
  const Impl& self = *impl_;
  if (self.record.nunits < 2) return 0;
  const int once = self.levels.empty() ? self.screen_matchings() : static_cast<int>(self.levels.size());
  const int screen = once + self.calibrated_rounds() * self.calibrations() + 2 * self.directed_matchings();
  if (self.record.nunits == 2) return screen;
  const int confirm = self.record.options.confirmations * (self.record.options.direction ? 3 : 1);
  return screen + confirm + self.record.options.rails;
}

}  // namespace busbar
