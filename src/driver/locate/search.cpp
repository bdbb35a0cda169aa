#include "driver/locate/search.h"

#include "common/statistics/interval.h"
#include "driver/locate/noise.h"
#include "driver/locate/search_state.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>
#include <utility>

namespace busbar {
namespace {

using Kind = LocateRound::Kind;

bool was_measured(const GroupMeasurement& group) {
  const auto kept = static_cast<float>(group.bandwidth);  // as PairResult keeps it
  return kept > 0 && !std::isinf(kept);
}

}  // namespace

void Search::Impl::calibrate(std::span<const GroupMeasurement> measured) {
  const std::size_t first = static_cast<std::size_t>(first_rounds % calibrated_rounds()) * asked.groups.size();
  repeats.resize(std::max(repeats.size(), first + asked.groups.size()));
  for (std::size_t i = 0; i < measured.size(); ++i) {
    repeats[first + i].push_back(was_measured(measured[i]) ? measured[i].bandwidth : 0);
  }
  if (++first_rounds < to_calibrate()) return;
  record.noise = noise_of_repeats(repeats);
  record.threshold = slow_threshold(record.noise, record.options.warn);
}

/// A few repeats tell the noise to a third of it. All pairs of good units tell more: they spread by the noise and by
/// what differs between them, so the noise is the less of the two.
void Search::Impl::sharpen_noise() {
  const PairEvidence evidence = record.weigh(false);
  const auto good = [&](int end) {
    return evidence.screen.state[static_cast<std::size_t>(end)] == Screen::State::good;
  };
  std::vector<double> bandwidths;
  for (const PairResult& result : record.results) {
    const bool once = !result.one_way && of_screen(result) && result.kind != Kind::calibration;
    if (once && good(result.a) && good(result.b)) bandwidths.push_back(static_cast<double>(result.bandwidth));
  }
  const double spread = spread_of_pairs(bandwidths);
  if (!(spread < record.noise)) return;
  record.noise = spread;
  record.threshold = slow_threshold(spread, record.options.warn);
}

void Search::Impl::keep(std::span<const GroupMeasurement> measured) {
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (!was_measured(measured[i])) continue;
    const std::vector<int>& units = asked.groups[i];
    if (!levels.empty() && asked.kind == Kind::halving) {
      const auto level =
          std::find_if(levels.begin(), levels.end(), [&](const auto& groups) { return groups == asked.groups; });
      record.groups.push_back({units, static_cast<int>(level - levels.begin()), measured[i].bandwidth});
    }
    if (units.size() > 3) continue;
    PairResult result;
    result.bandwidth = static_cast<float>(measured[i].bandwidth);
    result.tested = current.tested.empty() ? PairResult::kNothing : current.tested[i];
    result.round = static_cast<std::uint16_t>(std::min(record.rounds - 1, 65535));
    result.kind = asked.kind;
    result.one_way = asked.one_way;
    result.dipped = measured[i].dips > 0;
    result.rail = static_cast<std::int16_t>(asked.rail);
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

void Search::Impl::keep_soak(std::span<const GroupMeasurement> measured) {
  Pairs pairs;
  std::vector<double> values;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (!was_measured(measured[i])) continue;
    pairs.emplace_back(asked.groups[i][0], asked.groups[i][1]);
    values.push_back(measured[i].bandwidth);
  }
  if (values.empty()) return;
  // With many pairs the round's own median is what is normal in this minute.
  constexpr std::size_t kEnough = 8;
  const double normal = values.size() >= kEnough ? median(values) : record.weigh(false).screen.reference;
  for (double& value : values) value /= normal;
  record.soak.add(pairs, values, record.threshold, soak_window);
}

Search::Search(int nunits, const SearchOptions& options) : impl_(std::make_unique<Impl>(nunits, options)) {}
Search::Search(Search&&) noexcept = default;
Search& Search::operator=(Search&&) noexcept = default;
Search::~Search() = default;

std::optional<LocateRound> Search::next(double elapsed_s) {
  Impl& self = *impl_;
  self.plan_more(elapsed_s);
  if (self.planned.empty()) return std::nullopt;
  self.current = std::move(self.planned.front());
  self.planned.pop_front();
  PlannedRound& round = self.current;
  if (round.matching >= 0) round.pairs = self.matchings.at(round.matching);
  self.asked = {};
  self.asked.kind = round.kind;
  self.asked.one_way = round.one_way;
  self.asked.rail = round.rail;
  self.asked.groups = std::move(round.groups);
  for (const auto& [a, b] : round.pairs) {
    self.asked.groups.push_back(round.reverse ? std::vector<int>{b, a} : std::vector<int>{a, b});
  }
  return self.asked;
}

void Search::add(std::span<const GroupMeasurement> measured) {
  Impl& self = *impl_;
  const std::span<const GroupMeasurement> known = measured.first(std::min(measured.size(), self.asked.groups.size()));
  ++self.record.rounds;
  if (self.asked.kind == Kind::calibration) ++self.record.calibration_rounds;
  if (self.asked.kind == Kind::alone) ++self.record.alone_rounds;
  if (self.soaking) {
    self.keep_soak(known);
    return;
  }
  self.keep(known);
  if (self.first_rounds < self.to_calibrate()) self.calibrate(known);
}

LocateFinding Search::finding() const { return conclude(impl_->record); }

std::vector<PairCell> Search::matrix() const {
  std::vector<PairResult> results = impl_->record.results;
  std::erase_if(results, [](const PairResult& r) { return r.kind == Kind::alone || r.kind == Kind::rail; });
  const auto key = [](const PairResult& r) { return std::tuple(r.one_way, r.a, r.b); };
  std::sort(results.begin(), results.end(), [&](const PairResult& x, const PairResult& y) { return key(x) < key(y); });
  std::vector<PairCell> cells;
  for (std::size_t first = 0; first < results.size();) {
    std::vector<double> values;
    std::size_t end = first;
    for (; end < results.size() && key(results[end]) == key(results[first]); ++end) {
      values.push_back(static_cast<double>(results[end].bandwidth));
    }
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
