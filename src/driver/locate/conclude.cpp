#include "common/statistics/distributions.h"
#include "common/statistics/interval.h"
#include "driver/locate/search_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <vector>

namespace busbar {
namespace {

/// Which ends the measurements of one kind blame, and how many could not be told from chance.
struct Suspects {
  std::vector<Culprit> units;
  std::vector<int> ends;  ///< of `units`
  std::vector<Culprit> links;
  int undecided = 0;
};

using Side = Culprit::Side;
using What = Culprit::What;

/// Fail below `fail` of the median, else warn.
Outcome outcome_of(double ratio, const SearchOptions& options) {
  return ratio < options.fail ? Outcome::fail : Outcome::warn;
}

/// Slow only under load: alone it does as well as the others, or makes up most of what it lacks.
bool recovers_alone(double ratio, double alone_ratio, double threshold) {
  return alone_ratio > 0 && alone_ratio >= std::max(threshold, (1 + ratio) / 2);
}

/// In how many looks it was slow before the first in which it was not: each time, or if it comes and goes, mostly.
int looks_in_a_row(const LaterLooks& later, const SearchRecord& record, bool intermittent) {
  int looks = 1;
  while (looks < record.looks) {
    const SlowCount& look = later.at(static_cast<std::size_t>(looks) - 1);
    if (look.slow == 0 || (intermittent ? 2 * look.slow <= look.measured : look.slow < look.measured)) break;
    ++looks;
  }
  return looks;
}

/// In how many looks it was tested: only what failed so far is tested again.
int looks_at(const LaterLooks& later) {
  return 1 + static_cast<int>(std::ranges::count_if(later, [](const SlowCount& look) { return look.measured > 0; }));
}

/// As the first look has it.
Culprit unit_culprit(const EndEvidence& end, const SearchRecord& record) {
  SlowCount all = end.pairs;
  all.measured += end.confirmations.measured;
  all.slow += end.confirmations.slow;
  all.sum += end.confirmations.sum;
  all.squares += end.confirmations.squares;
  Culprit culprit;
  culprit.units = {end.end % record.nunits};
  culprit.slow_partners = end.pairs.slow;
  culprit.partners = end.pairs.measured;
  culprit.failed_confirmations = end.confirmations.slow;
  culprit.confirmations = end.confirmations.measured;
  culprit.ratio = all.mean();
  culprit.ratio_error = all.deviation();
  culprit.alone_ratio = end.alone_ratio;
  culprit.intermittent = end.comes_and_goes();
  culprit.looks = looks_at(end.later);
  culprit.looks_slow = looks_in_a_row(end.later, record, culprit.intermittent);
  if (culprit.intermittent && all.slow < 3) {  // only within its measurements
    culprit.slow_partners = end.dipped;
    culprit.partners = end.measured;
    culprit.failed_confirmations = end.dipped_again;
    culprit.ratio = culprit.ratio_error = 0;
    culprit.over_time = end.sustained;
    // Its median repetition is as fast as others', so it is the time lost in the dips that counts, and that the tests
    // made for its sake dip too.
    const bool persists = 2 * end.dipped_again > end.confirmations.measured && end.dip_chance <= kFalseFailures;
    culprit.outcome = persists ? outcome_of(end.sustained, record.options) : Outcome::warn;
    return culprit;
  }
  culprit.outcome = outcome_of(culprit.ratio, record.options);
  if (!culprit.intermittent && recovers_alone(culprit.ratio, culprit.alone_ratio, record.threshold))
    culprit.what = What::contention;
  return culprit;
}

Culprit link_culprit(const LinkEvidence& link, const SearchRecord& record) {
  Culprit culprit;
  culprit.what = What::link;
  culprit.looks = looks_at(link.later);
  culprit.looks_slow = looks_in_a_row(link.later, record, false);
  culprit.units = {link.a % record.nunits, link.b % record.nunits};
  culprit.slow_partners = 1;
  culprit.partners = 1;
  culprit.failed_confirmations = link.measurements.slow - 1;
  culprit.confirmations = link.measurements.measured - 1;
  culprit.ratio = link.measurements.mean();
  culprit.ratio_error = link.measurements.deviation();
  culprit.alone_ratio = link.alone_ratio;
  culprit.outcome = outcome_of(culprit.ratio, record.options);
  if (recovers_alone(culprit.ratio, culprit.alone_ratio, record.threshold)) culprit.what = What::contention;
  return culprit;
}

Side side_of(const Suspects& one_way, int unit, int nunits) {
  const auto has = [&](int end) { return std::ranges::count(one_way.ends, end) > 0; };
  const bool sends = has(unit);
  const bool receives = has(nunits + unit);
  return sends && receives ? Side::both : sends ? Side::transmit : receives ? Side::receive : Side::unknown;
}

Suspects suspects_of(const PairEvidence& evidence, const SearchRecord& record) {
  Suspects suspects;
  std::set<int> blamed;
  for (const EndEvidence& end : evidence.ends) {
    if (end.blamed() || end.comes_and_goes()) {
      suspects.units.push_back(unit_culprit(end, record));
      suspects.ends.push_back(end.end);
      blamed.insert(end.end);
    } else if (end.slow() && end.confirmations.measured > 0) {
      ++suspects.undecided;
    }
  }
  for (const LinkEvidence& link : evidence.links) {
    if (blamed.count(link.a) > 0 || blamed.count(link.b) > 0) continue;
    if (link.blamed()) {
      suspects.links.push_back(link_culprit(link, record));
    } else if (link.always_slow() && link.measurements.measured >= 3 && link.alone.slow == link.alone.measured) {
      ++suspects.undecided;
    }
  }
  return suspects;
}

/// A FAIL needs all looks: with fewer it is a WARN, because time was too short or it was slow only for a while.
void demand_looks(std::vector<Culprit>& culprits, const SearchRecord& record) {
  const int wanted = std::min(record.options.looks, kMostLooks);
  for (Culprit& culprit : culprits) {
    if (culprit.looks > 0 && culprit.looks_slow < wanted) culprit.outcome = std::min(culprit.outcome, Outcome::warn);
  }
}

/// What both kinds say, once: a unit that is slow both ways at once and when sending is one culprit with a side.
std::vector<Culprit> join_suspects(const Suspects& two_way, const Suspects& one_way, int nunits) {
  std::vector<Culprit> culprits = two_way.units;
  for (Culprit& culprit : culprits) culprit.side = side_of(one_way, culprit.units.front(), nunits);
  for (const Culprit& culprit : one_way.units) {
    const bool known = std::ranges::any_of(culprits, [&](const Culprit& c) { return c.units == culprit.units; });
    if (known) continue;
    culprits.push_back(culprit);
    culprits.back().side = side_of(one_way, culprit.units.front(), nunits);
  }
  culprits.insert(culprits.end(), two_way.links.begin(), two_way.links.end());
  for (const Culprit& culprit : one_way.links) {
    std::vector<int> back(culprit.units.rbegin(), culprit.units.rend());
    const auto same = std::ranges::find_if(culprits, [&](const Culprit& c) {
      return c.units.size() == 2 && (c.units == culprit.units || c.units == back);
    });
    if (same == culprits.end()) {
      culprits.push_back(culprit);
      culprits.back().side = Side::transmit;  // from the first to the second
    } else if (same->side == Side::unknown) {
      same->units = culprit.units;
      same->side = Side::transmit;
    } else if (same->units == back) {
      same->side = Side::both;
    }
  }
  return culprits;
}

void add_soak(const SearchRecord& record, std::vector<Culprit>& culprits) {
  for (const SoakFlag& flag : record.soak.flags()) {
    const bool known = std::ranges::any_of(
        culprits, [&](const Culprit& c) { return c.units.size() == 1 && c.units.front() == flag.unit; });
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
    const bool explained = std::ranges::any_of(culprits, [&](const Culprit& c) {
      return std::ranges::all_of(c.units, [&](int u) { return std::ranges::binary_search(group.units, u); });
    });
    if (explained || group.measurements.measured < kTimes || group.chance > kFalseSuspects) continue;
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

/// Two units: one pair, which can only be compared with what is expected, and its two directions.
void conclude_two(const SearchRecord& record, LocateVerdict& verdict) {
  std::vector<double> there;
  std::vector<double> back;
  std::vector<double> both;
  for (const PairResult& result : record.results)
    (result.one_way ? (result.a == 0 ? there : back) : both).push_back(static_cast<double>(result.bandwidth));
  if (!both.empty()) verdict.median_bandwidth = median(both);
  const auto blame = [&](double ratio, int slow, int from, int to, Side side) {
    Culprit culprit;
    culprit.what = What::one_of_two;
    culprit.units = {from, to};
    culprit.side = side;
    culprit.slow_partners = culprit.partners = 1;
    culprit.failed_confirmations = culprit.confirmations = slow;
    culprit.ratio = ratio;
    culprit.outcome = outcome_of(ratio, record.options);
    verdict.culprits.push_back(culprit);
  };
  if (there.empty() || back.empty() || both.empty()) {
    verdict.outcome = Outcome::inconclusive;
    verdict.reason = "the only pair could not be measured";
    return;
  }
  const double expected = record.options.expected_bandwidth;
  const double direction = median(there) / median(back);
  if (expected > 0 && verdict.median_bandwidth < record.threshold * expected) {
    blame(verdict.median_bandwidth / expected, static_cast<int>(both.size()), 0, 1, Side::unknown);
  } else if (direction < record.threshold) {
    blame(direction, static_cast<int>(there.size()), 0, 1, Side::transmit);
  } else if (1 / direction < record.threshold) {
    blame(1 / direction, static_cast<int>(back.size()), 1, 0, Side::transmit);
  } else if (record.noise > kTooNoisy) {
    verdict.outcome = Outcome::inconclusive;
    verdict.reason = fmt::format("the same pair varies by {:.0f} %", 100 * record.noise);
  } else if (expected <= 0) {
    verdict.outcome = Outcome::skip;
    verdict.reason = "two units make one pair: its two directions agree, its speed cannot be compared with anything";
  }
  if (!verdict.culprits.empty()) verdict.outcome = verdict.culprits.front().outcome;
}

/// Why the search cannot say that all is well.
std::string doubts(const SearchRecord& record, const PairEvidence& both, const Suspects& suspects,
                   const Suspects& one_way) {
  const auto reference = both.screen.reference;
  const auto missing = std::ranges::count(both.screen.state, Screen::State::unknown);
  if (both.pairs.empty()) return "no pair could be measured";
  if (missing > 0) return fmt::format("{} of {} units could not be measured", missing, record.nunits);
  if (record.options.expected_bandwidth > 0 && reference < record.threshold * record.options.expected_bandwidth) {
    return fmt::format("all are slow: the median is {:.2f} of what is expected",
                       reference / record.options.expected_bandwidth);
  }
  if (both.screen.faster_share >= 0.125 && both.screen.faster_share * record.nunits >= 1.5) {
    return fmt::format(
        "{:.0f} % of the units are faster than the others by more than the noise: two groups, and "
        "the data cannot tell which one is normal",
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
    return fmt::format("the same pair varies by {:.0f} %: only what is below {:.2f} of the median can be detected",
                       100 * record.noise, std::max(record.threshold, 0.0));
  }
  if (suspects.undecided + one_way.undecided > 0) {
    return fmt::format(
        "{} more were slow each time, but {:.1f} % of the measurements of good pairs are slow: chance "
        "cannot be excluded",
        suspects.undecided + one_way.undecided, 100 * both.slow_share);
  }
  return "";
}

/// If more than a third is slow, nobody knows what is normal.
bool too_many(const Suspects& suspects, int nunits) {
  return static_cast<int>(suspects.units.size()) > std::max(1, nunits / 3);
}

}  // namespace

PairEvidence failing(const SearchRecord& record, bool one_way) {
  PairEvidence evidence = record.score(one_way);
  const auto passes = [&](const Culprit& culprit) {
    return culprit.outcome != Outcome::fail || culprit.looks_slow < record.looks;
  };
  std::erase_if(evidence.ends, [&](const EndEvidence& end) {
    return !(end.blamed() || end.comes_and_goes()) || passes(unit_culprit(end, record));
  });
  std::erase_if(evidence.links,
                [&](const LinkEvidence& link) { return !link.blamed() || passes(link_culprit(link, record)); });
  return evidence;
}

LocateVerdict conclude(const SearchRecord& record) {
  LocateVerdict verdict;
  verdict.rounds = record.rounds;
  verdict.calibration_rounds = record.calibration_rounds;
  verdict.alone_rounds = record.alone_rounds;
  verdict.later_rounds = record.later_rounds;
  verdict.noise = std::isnan(record.noise) ? 0 : record.noise;
  verdict.threshold = record.threshold;
  if (record.nunits < 2) {
    verdict.outcome = Outcome::skip;
    verdict.reason = "there is only one unit, and nothing to compare it with: mpirun -n N, on two hosts or more";
    return verdict;
  }
  if (record.nunits == 2) {
    conclude_two(record, verdict);
    return verdict;
  }
  const PairEvidence both = record.score(false);
  const PairEvidence directed = record.score(true);
  Suspects suspects = suspects_of(both, record);
  Suspects one_way = suspects_of(directed, record);
  verdict.median_bandwidth = both.screen.reference;
  verdict.slow_share = both.slow_share;
  const int met = record.few() ? record.nunits - 1 : record.options.matchings;
  const int times = record.options.confirmations, majority = times / 2 + 1;
  verdict.expected_false = record.nunits * std::pow(both.slow_share, met);
  if (times > 0)
    verdict.expected_false *= binomial_cdf(static_cast<std::size_t>(times), 1 - both.slow_share, times - majority);
  verdict.reason = doubts(record, both, suspects, one_way);
  if (too_many(suspects, record.nunits) || too_many(one_way, 2 * record.nunits)) {
    const std::size_t most = std::max(suspects.units.size(), one_way.units.size());
    verdict.reason = fmt::format(
        "{} of {} units are slower than the rest by more than the noise: two groups, and the "
        "data cannot tell which one is normal",
        most, record.nunits);
    suspects.units.clear();
    one_way.units.clear();
  }
  verdict.culprits = join_suspects(suspects, one_way, record.nunits);
  demand_looks(verdict.culprits, record);
  for (Culprit& culprit : verdict.culprits) {
    if (culprit.units.size() != 1) continue;
    culprit.slow_rails = slow_rails(record, culprit.units.front());
    if (culprit.slow_rails.size() == 1) culprit.rail = culprit.slow_rails.front();
  }
  add_soak(record, verdict.culprits);
  add_groups(record, verdict.culprits);
  std::ranges::stable_sort(verdict.culprits, [](const Culprit& a, const Culprit& b) {
    return a.outcome != b.outcome ? a.outcome > b.outcome : a.ratio < b.ratio;
  });
  if (!verdict.culprits.empty()) {
    verdict.outcome = verdict.culprits.front().outcome;
  } else if (!verdict.reason.empty()) {
    verdict.outcome = Outcome::inconclusive;
  }
  return verdict;
}

}  // namespace busbar
