#include "common/statistics/distributions.h"
#include "common/statistics/interval.h"
#include "driver/locate/blames.h"
#include "driver/locate/noise.h"
#include "driver/locate/search_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace busbar {
namespace {

using Side = Culprit::Side;
using What = Culprit::What;

void add_soak(const SearchRecord& record, std::vector<Culprit>& culprits) {
  for (const SoakFlag& flag : record.soak.flags()) {
    const bool known = std::any_of(culprits.begin(), culprits.end(), [&](const Culprit& c) {
      return c.units.size() == 1 && c.units.front() == flag.unit;
    });
    if (known) continue;
    Culprit culprit;
    culprit.units = {flag.unit};
    culprit.intermittent = true;
    culprit.slow_partners = flag.slow;
    culprit.partners = flag.measured;
    culprit.failed_confirmations = flag.windows;
    culprit.confirmations = SoakWatch::kWindows;
    culprit.ratio = flag.ratio;
    culprit.outcome = outcome_of(flag.ratio, record.options);
    culprits.push_back(culprit);
  }
}

void add_groups(const SearchRecord& record, std::vector<Culprit>& culprits) {
  constexpr int kTimes = 4;  // 100 groups that each dip one time in 20 do so four times in a row in one search of 1600
  for (const SlowGroup& group : slow_groups(record)) {
    const bool explained = std::any_of(culprits.begin(), culprits.end(), [&](const Culprit& c) {
      return std::all_of(c.units.begin(), c.units.end(),
                         [&](int u) { return std::binary_search(group.units.begin(), group.units.end(), u); });
    });
    if (explained || group.measurements.measured < kTimes || group.chance > kFalseBlames) continue;
    Culprit culprit;
    culprit.what = What::contention;
    culprit.units = group.units;
    culprit.failed_confirmations = culprit.confirmations = group.measurements.measured;
    culprit.ratio = group.measurements.mean();
    culprit.ratio_error = group.measurements.deviation();
    culprit.outcome = outcome_of(culprit.ratio, record.options);
    culprits.push_back(culprit);
  }
}

double share_of_chance(double p, int matchings, int confirmations) {
  const int most = confirmations / 2 + 1;
  if (confirmations == 0) return std::pow(p, matchings);
  return std::pow(p, matchings) * binomial_cdf(static_cast<std::size_t>(confirmations), 1 - p, confirmations - most);
}

/// Two units: one pair, which has nothing to be held against but what is expected, and its two directions.
void conclude_two(const SearchRecord& record, LocateFinding& finding) {
  std::vector<double> there;
  std::vector<double> back;
  std::vector<double> both;
  for (const PairResult& result : record.results) {
    (result.one_way ? (result.a == 0 ? there : back) : both).push_back(static_cast<double>(result.bandwidth));
  }
  if (!both.empty()) finding.median_bandwidth = median(both);
  const auto blame = [&](double ratio, int slow, int from, int to, Side side) {
    Culprit culprit;
    culprit.what = What::one_of_two;
    culprit.units = {from, to};
    culprit.side = side;
    culprit.slow_partners = culprit.partners = 1;
    culprit.failed_confirmations = culprit.confirmations = slow;
    culprit.ratio = ratio;
    culprit.outcome = outcome_of(ratio, record.options);
    finding.culprits.push_back(culprit);
  };
  if (there.empty() || back.empty() || both.empty()) {
    finding.outcome = Outcome::inconclusive;
    finding.reason = "the only pair could not be measured";
    return;
  }
  const double expected = record.options.expected_bandwidth;
  const double direction = median(there) / median(back);
  if (expected > 0 && finding.median_bandwidth < record.threshold * expected) {
    blame(finding.median_bandwidth / expected, static_cast<int>(both.size()), 0, 1, Side::unknown);
  } else if (direction < record.threshold) {
    blame(direction, static_cast<int>(there.size()), 0, 1, Side::transmit);
  } else if (1 / direction < record.threshold) {
    blame(1 / direction, static_cast<int>(back.size()), 1, 0, Side::transmit);
  } else if (record.noise > kTooNoisy) {
    finding.outcome = Outcome::inconclusive;
    finding.reason = fmt::format("the same pair varies by {:.0f} %", 100 * record.noise);
  } else if (expected <= 0) {
    finding.outcome = Outcome::skip;
    finding.reason = "two units make one pair: its two directions agree, its speed has nothing to be held against";
  }
  if (!finding.culprits.empty()) finding.outcome = finding.culprits.front().outcome;
}

/// Why the search cannot say that all is well.
std::string doubts(const SearchRecord& record, const PairEvidence& both, const Blames& blames, const Blames& one_way) {
  const auto reference = both.screen.reference;
  const auto missing = std::count(both.screen.state.begin(), both.screen.state.end(), Screen::State::unknown);
  if (both.pairs.empty()) return "no pair could be measured";
  if (missing > 0) return fmt::format("{} of {} units could not be measured", missing, record.nunits);
  if (record.options.expected_bandwidth > 0 && reference < record.threshold * record.options.expected_bandwidth) {
    return fmt::format("all are slow: the median is {:.2f} of what is expected",
                       reference / record.options.expected_bandwidth);
  }
  if (both.screen.faster_share >= 0.125 && both.screen.faster_share * record.nunits >= 1.5) {
    return fmt::format(
        "{:.0f} % of the units are faster than the others by more than the noise: two groups, and "
        "which of them is as it should be cannot be told",
        100 * both.screen.faster_share);
  }
  constexpr double kTwoGroups = 0.25;
  const double seldom = both.good_measurements < 8 ? 0.5 : kTwoGroups;
  if (both.slow_share > seldom) {
    return fmt::format(
        "{:.0f} % of the pairs of good units are slow too: groups with a slower fabric between them, or "
        "contention",
        100 * both.slow_share);
  }
  if (record.noise > kTooNoisy) {
    return fmt::format("the same pair varies by {:.0f} %: only what is below {:.2f} of the median can be told",
                       100 * record.noise, std::max(record.threshold, 0.0));
  }
  if (blames.undecided + one_way.undecided > 0) {
    return fmt::format(
        "{} more were slow each time, but {:.1f} % of the measurements of good pairs are slow: chance "
        "cannot be excluded",
        blames.undecided + one_way.undecided, 100 * both.slow_share);
  }
  return "";
}

/// More than a third cannot be held against the rest: what is normal?
bool too_many(const Blames& blames, int nunits) {
  return static_cast<int>(blames.units.size()) > std::max(1, nunits / 3);
}

}  // namespace

LocateFinding conclude(const SearchRecord& record) {
  LocateFinding finding;
  finding.rounds = record.rounds;
  finding.calibration_rounds = record.calibration_rounds;
  finding.alone_rounds = record.alone_rounds;
  finding.noise = std::isnan(record.noise) ? 0 : record.noise;
  finding.threshold = record.threshold;
  if (record.nunits < 2) {
    finding.outcome = Outcome::skip;
    finding.reason = "one unit has nothing to be compared with";
    return finding;
  }
  if (record.nunits == 2) {
    conclude_two(record, finding);
    return finding;
  }
  const PairEvidence both = record.weigh(false);
  const PairEvidence directed = record.weigh(true);
  Blames blames = blames_of(both, record);
  Blames one_way = blames_of(directed, record);
  finding.median_bandwidth = both.screen.reference;
  finding.slow_share = both.slow_share;
  const int met = record.few() ? record.nunits - 1 : record.options.matchings;
  finding.expected_false = record.nunits * share_of_chance(both.slow_share, met, record.options.confirmations);
  finding.reason = doubts(record, both, blames, one_way);
  if (too_many(blames, record.nunits) || too_many(one_way, 2 * record.nunits)) {
    const std::size_t most = std::max(blames.units.size(), one_way.units.size());
    finding.reason = fmt::format(
        "{} of {} units are slower than the rest by more than the noise: two groups, and which "
        "of them is as it should be cannot be told",
        most, record.nunits);
    blames.units.clear();
    one_way.units.clear();
  }
  finding.culprits = join_blames(blames, one_way, record.nunits);
  for (Culprit& culprit : finding.culprits) {
    if (culprit.units.size() != 1) continue;
    culprit.slow_rails = slow_rails(record, culprit.units.front());
    if (culprit.slow_rails.size() == 1) culprit.rail = culprit.slow_rails.front();
  }
  add_soak(record, finding.culprits);
  add_groups(record, finding.culprits);
  std::stable_sort(finding.culprits.begin(), finding.culprits.end(), [](const Culprit& a, const Culprit& b) {
    return a.outcome != b.outcome ? a.outcome > b.outcome : a.ratio < b.ratio;
  });
  if (!finding.culprits.empty()) {
    finding.outcome = finding.culprits.front().outcome;
  } else if (!finding.reason.empty()) {
    finding.outcome = Outcome::inconclusive;
  }
  return finding;
}

}  // namespace busbar
