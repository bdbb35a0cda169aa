#include "driver/locate/blames.h"

#include <algorithm>
#include <set>

namespace busbar {
namespace {

using Side = Culprit::Side;
using What = Culprit::What;

/// Slow measurements of two kinds as one.
SlowCount together(SlowCount a, const SlowCount& b) {
  a.measured += b.measured;
  a.slow += b.slow;
  a.sum += b.sum;
  a.squares += b.squares;
  return a;
}

Culprit unit_culprit(const EndEvidence& end, const SearchRecord& record) {
  const SlowCount all = together(end.pairs, end.confirmations);
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
  if (!culprit.intermittent && recovers_alone(culprit.ratio, culprit.alone_ratio, record.threshold)) {
    culprit.what = What::contention;
  }
  return culprit;
}

Culprit link_culprit(const LinkEvidence& link, const SearchRecord& record) {
  Culprit culprit;
  culprit.what = What::link;
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

Side side_of(const Blames& one_way, int unit, int nunits) {
  const auto has = [&](int end) { return std::count(one_way.ends.begin(), one_way.ends.end(), end) > 0; };
  const bool sends = has(unit);
  const bool receives = has(nunits + unit);
  return sends && receives ? Side::both : sends ? Side::transmit : receives ? Side::receive : Side::unknown;
}

}  // namespace

Outcome outcome_of(double ratio, const SearchOptions& options) {
  return ratio < options.fail ? Outcome::fail : Outcome::warn;
}

bool recovers_alone(double ratio, double alone_ratio, double threshold) {
  return alone_ratio > 0 && alone_ratio >= std::max(threshold, (1 + ratio) / 2);
}

Blames blames_of(const PairEvidence& evidence, const SearchRecord& record) {
  Blames blames;
  std::set<int> blamed;
  for (const EndEvidence& end : evidence.ends) {
    if (end.blamed() || end.comes_and_goes()) {
      blames.units.push_back(unit_culprit(end, record));
      blames.ends.push_back(end.end);
      blamed.insert(end.end);
    } else if (end.slow() && end.confirmations.measured > 0) {
      ++blames.undecided;
    }
  }
  for (const LinkEvidence& link : evidence.links) {
    if (blamed.count(link.a) > 0 || blamed.count(link.b) > 0) continue;
    if (link.blamed()) {
      blames.links.push_back(link_culprit(link, record));
    } else if (link.always_slow() && link.measurements.measured >= 3 && link.alone.slow == link.alone.measured) {
      ++blames.undecided;
    }
  }
  return blames;
}

std::vector<Culprit> join_blames(const Blames& two_way, const Blames& one_way, int nunits) {
  std::vector<Culprit> culprits = two_way.units;
  for (Culprit& culprit : culprits) culprit.side = side_of(one_way, culprit.units.front(), nunits);
  for (const Culprit& culprit : one_way.units) {
    const bool known =
        std::any_of(culprits.begin(), culprits.end(), [&](const Culprit& c) { return c.units == culprit.units; });
    if (known) continue;
    culprits.push_back(culprit);
    culprits.back().side = side_of(one_way, culprit.units.front(), nunits);
  }
  culprits.insert(culprits.end(), two_way.links.begin(), two_way.links.end());
  for (const Culprit& culprit : one_way.links) {
    std::vector<int> back(culprit.units.rbegin(), culprit.units.rend());
    const auto same = std::find_if(culprits.begin(), culprits.end(), [&](const Culprit& c) {
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

}  // namespace busbar
