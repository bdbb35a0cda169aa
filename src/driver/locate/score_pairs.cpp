#include "common/base/lists.h"
#include "common/statistics/distributions.h"
#include "common/statistics/interval.h"
#include "driver/locate/search_record.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <utility>

namespace busbar {
namespace {

std::vector<double> scores(std::span<const MeasuredPair> pairs, int nends) {
  std::vector<std::vector<double>> of(static_cast<std::size_t>(nends));
  for (const MeasuredPair& pair : pairs) {
    of[pair.a].push_back(pair.bandwidth);
    of[pair.b].push_back(pair.bandwidth);
  }
  std::vector<double> score;
  for (std::vector<double>& values : of) {
    if (values.empty()) {
      score.push_back(std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    // Of many pairs the best is the luckiest: take the one that an eighth of them reaches.
    const auto place = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 8);
    std::nth_element(values.begin(), place, values.end(), std::greater<>());
    score.push_back(*place);
  }
  return score;
}

std::vector<Screen::State> states(const std::vector<double>& score, double limit) {
  return mapped(score, [&](double value) {
    if (std::isnan(value)) return Screen::State::unknown;
    return value < limit ? Screen::State::suspect : Screen::State::good;
  });
}

/// The screen's pairs, two-way or one-way, each once: the median of its measurements, each divided by the factor of its
/// round (1 if there is none).
std::vector<MeasuredPair> pairs_of_screen(std::span<const PairResult> results, bool one_way, int nunits,
                                          std::span<const double> round_factor) {
  std::vector<MeasuredPair> all;
  for (const PairResult& result : results) {
    if (result.one_way != one_way || !of_screen(result)) continue;
    const double factor = result.round < round_factor.size() ? round_factor[result.round] : 1;
    all.push_back({first_end(result), second_end(result, nunits), static_cast<double>(result.bandwidth) / factor});
  }
  std::ranges::sort(all, [](const MeasuredPair& x, const MeasuredPair& y) {
    return x.a != y.a ? x.a < y.a : x.b != y.b ? x.b < y.b : x.bandwidth < y.bandwidth;
  });
  std::vector<MeasuredPair> pairs;
  for (std::size_t first = 0; first < all.size();) {
    std::size_t end = first;
    while (end < all.size() && all[end].a == all[first].a && all[end].b == all[first].b) ++end;
    const std::size_t middle = first + (end - first) / 2;
    const double value =
        (end - first) % 2 == 1 ? all[middle].bandwidth : (all[middle - 1].bandwidth + all[middle].bandwidth) / 2;
    pairs.push_back({all[first].a, all[first].b, value});
    first = end;
  }
  return pairs;
}

/// What each round did to all pairs of good ends, if there are 8 or more: their median over the reference. A minute
/// in which the whole cluster was slow makes no end suspect.
std::vector<double> round_factors(std::span<const PairResult> results, bool one_way, int nunits, const Screen& screen) {
  constexpr std::size_t kEnough = 8;
  std::vector<std::vector<double>> of_round;
  for (const PairResult& result : results) {
    const bool loaded = result.kind != LocateRound::Kind::alone && result.kind != LocateRound::Kind::rail;
    if (result.one_way != one_way || !loaded || result.tested != PairResult::kNothing) continue;
    if (!screen.good(first_end(result)) || !screen.good(second_end(result, nunits))) continue;
    if (of_round.size() <= result.round) of_round.resize(result.round + std::size_t{1});
    of_round[result.round].push_back(static_cast<double>(result.bandwidth));
  }
  std::vector<double> factors;
  for (const std::vector<double>& values : of_round)
    factors.push_back(values.size() < kEnough ? 1 : median(values) / screen.reference);
  return factors;
}

/// P(at least `slow` of `measured`) at the rate `share`. Through the lower tail, which stays exact if it is tiny.
double tail(int slow, int measured, double share) {
  if (slow <= 0) return 1;
  return binomial_cdf(static_cast<std::size_t>(measured), 1 - share, measured - slow);
}

double smoothed(double slow, double measured) { return (slow + 0.5) / (measured + 1); }

class PairScoring {
 public:
  PairScoring(std::span<const PairResult> results, bool one_way, int nunits, double threshold, bool few)
      : results_(results), nunits_(nunits), nends_(one_way ? 2 * nunits : nunits), threshold_(threshold) {
    evidence_.one_way = one_way;
    evidence_.pairs = pairs_of_screen(results, one_way, nunits, {});
    evidence_.screen = screen_pairs(evidence_.pairs, nends_, threshold, few);
    factors_ = round_factors(results, one_way, nunits, evidence_.screen);
    if (std::ranges::all_of(factors_, [](double x) { return x == 1; })) return;
    evidence_.pairs = pairs_of_screen(results, one_way, nunits, factors_);
    evidence_.screen = screen_pairs(evidence_.pairs, nends_, threshold, few);
  }

  PairEvidence score() {
    if (evidence_.pairs.empty()) return std::move(evidence_);
    count_pairs([&](int end) { return good(end); });
    count_dips();
    choose_ends();
    count_share();
    count_tests();
    clear_partners();
    judge_chance();
    return std::move(evidence_);
  }

 private:
  bool good(int end) const { return evidence_.screen.good(end); }
  double ratio(const PairResult& result) const {
    const double factor = result.round < factors_.size() ? factors_[result.round] : 1;
    return static_cast<double>(result.bandwidth) / factor / evidence_.screen.reference;
  }
  bool slow(double ratio) const { return ratio < threshold_; }

  /// Measurements within which some repetitions fell far below the others.
  struct Dips {
    int measured = 0;
    int slow = 0;
    int sustained = 0;  ///< [%] sum over all measured
    double share() const { return measured == 0 ? 0 : static_cast<double>(slow) / measured; }
    double mean() const { return measured == 0 ? 1 : sustained / 100.0 / measured; }
  };
  static void add_dips(Dips& dips, const PairResult& result) {
    ++dips.measured;
    dips.slow += result.dipped ? 1 : 0;
    dips.sustained += result.sustained;
  }

  /// Counts per end its pairs with partners that are `wanted`.
  template <class Wanted>
  void count_pairs(Wanted wanted) {
    pairs_.resize(nends_);
    for (const MeasuredPair& pair : evidence_.pairs) {
      const double of_reference = pair.bandwidth / evidence_.screen.reference;
      if (wanted(pair.b)) pairs_[pair.a].add(of_reference, slow(of_reference));
      if (wanted(pair.a)) pairs_[pair.b].add(of_reference, slow(of_reference));
    }
  }

  /// Per end its dips with partners that are good and do not dip themselves: some pairs of a few units are measured so
  /// often that one of them would be blamed for the other.
  void count_dips() {
    std::vector<char> dips(nends_);
    for (int known = 0; known <= nends_ / 4; ++known) {
      dips_.assign(nends_, {});
      for (const PairResult& result : results_) {
        if (result.one_way != evidence_.one_way || result.kind == LocateRound::Kind::alone || result.look > 0) continue;
        if (result.kind == LocateRound::Kind::rail) continue;
        const int a = first_end(result);
        const int b = second_end(result, nunits_);
        if (good(b) && !dips[b]) add_dips(dips_[a], result);
        if (good(a) && !dips[a]) add_dips(dips_[b], result);
      }
      const int worst = worst_dips(dips);
      if (worst < 0) return;
      dips[worst] = 1;
    }
  }

  /// The end that dips most, of those that are good and not yet `known`, if chance is excluded; else -1.
  int worst_dips(const std::vector<char>& known) const {
    int worst = -1;
    Dips all;
    for (int end = 0; end < nends_; ++end) {
      const Dips& own = dips_[end];
      if (!good(end) || known[end]) continue;
      all.measured += own.measured;
      all.slow += own.slow;
      if (own.slow == 0) continue;
      if (worst < 0 || own.share() > dips_[worst].share()) worst = end;
    }
    if (worst < 0) return -1;
    const Dips& own = dips_[worst];
    const double others =
        smoothed(std::max(0, all.slow - 2 * own.slow) / 2.0, std::max(0, all.measured - 2 * own.measured) / 2.0);
    return nends_ * tail(own.slow, own.measured, others) <= kFalseAlarms ? worst : -1;
  }

  /// The suspects, and ends that are slow or dip so often that it is worth three more rounds, which cost nothing if
  /// there are others in them anyway.
  void choose_ends() {
    long slow_pairs = 0;
    long pairs = 0;
    long dipped = 0;
    long measured = 0;
    for (int end = 0; end < nends_; ++end) {
      if (!good(end)) continue;
      slow_pairs += pairs_[end].slow;
      pairs += pairs_[end].measured;
      dipped += dips_[end].slow;
      measured += dips_[end].measured;
    }
    constexpr double kWorthALook = 0.02;
    for (int end = 0; end < nends_; ++end) {
      const SlowCount& own = pairs_[end];
      const Dips& dips = dips_[end];
      const bool suspect = evidence_.screen.state[end] == Screen::State::suspect;
      // Its own are left out of what is normal: in a small cluster they are a good part of it.
      const auto stands_out = [&](const auto& mine, long all_slow, long all) {
        if (!good(end) || mine.slow < 2) return false;
        const auto others_slow = static_cast<double>(std::max(0L, all_slow - 2L * mine.slow));
        const auto others = static_cast<double>(std::max(0L, all - 2L * mine.measured));
        return tail(mine.slow, mine.measured, smoothed(others_slow / 2, others / 2)) <= kWorthALook;
      };
      if (!suspect && !stands_out(own, slow_pairs, pairs) && !stands_out(dips, dipped, measured)) continue;
      EndEvidence entry;
      entry.end = end;
      entry.suspect = suspect;
      index_[end] = evidence_.ends.size();
      evidence_.ends.push_back(entry);
    }
    for (const int i : evidence_.screen.slow_pairs) {
      const MeasuredPair& pair = evidence_.pairs[i];
      LinkEvidence link;
      link.a = pair.a;
      link.b = pair.b;
      link.measurements.add(pair.bandwidth / evidence_.screen.reference, true);
      link_index_[{pair.a, pair.b}] = evidence_.links.size();
      evidence_.links.push_back(link);
    }
  }

  /// How often pairs are slow although nothing is wrong with them.
  void count_share() {
    const auto beyond_suspicion = [&](int end) { return good(end) && index_.count(end) == 0; };
    SlowCount all;
    Dips dips;
    for (const MeasuredPair& pair : evidence_.pairs) {
      const double of_reference = pair.bandwidth / evidence_.screen.reference;
      if (beyond_suspicion(pair.a) && beyond_suspicion(pair.b)) all.add(of_reference, slow(of_reference));
    }
    for (const PairResult& result : results_) {
      if (result.one_way != evidence_.one_way || result.tested != PairResult::kNothing || result.look > 0) continue;
      if (result.kind == LocateRound::Kind::alone || result.kind == LocateRound::Kind::rail) continue;
      if (!beyond_suspicion(first_end(result)) || !beyond_suspicion(second_end(result, nunits_))) continue;
      if (!of_screen(result)) all.add(ratio(result), slow(ratio(result)));
      add_dips(dips, result);
    }
    evidence_.good_measurements = all.measured;
    slow_ = all.slow;
    evidence_.slow_share = smoothed(all.slow, all.measured);
    dip_share_ = smoothed(dips.slow, dips.measured);
    sustained_ = dips.mean();
  }

  void count_tests() {
    for (const PairResult& result : results_) {
      if (result.one_way != evidence_.one_way || of_screen(result)) continue;
      if (result.kind == LocateRound::Kind::rail || result.tested == PairResult::kNothing) continue;
      const double value = ratio(result);
      const bool alone = result.kind == LocateRound::Kind::alone;
      if (result.tested == PairResult::kThePair) {
        const auto found = link_index_.find({first_end(result), second_end(result, nunits_)});
        if (found == link_index_.end()) continue;
        LinkEvidence& link = evidence_.links[found->second];
        if (result.look > 0) {
          link.later.at(result.look - std::size_t{1}).add(value, slow(value));
          continue;
        }
        (alone ? link.alone : link.measurements).add(value, slow(value));
        if (alone) link.alone_ratio = value;
      } else if (const auto found = index_.find(result.tested); found != index_.end()) {
        EndEvidence& end = evidence_.ends[found->second];
        if (result.look > 0) {
          end.later.at(result.look - std::size_t{1}).add(value, slow(value) || result.dipped);
          continue;
        }
        (alone ? end.alone : end.confirmations).add(value, slow(value));
        if (alone) end.alone_ratio = value;
        if (!alone && result.dipped) ++end.dipped_again;
      }
    }
  }

  /// A suspect that its confirmations clear was a victim, and its partners' slow pairs with it count against these.
  void clear_partners() {
    count_pairs([&](int end) {
      const auto found = index_.find(end);
      if (found == index_.end()) return false;
      const EndEvidence& entry = evidence_.ends[found->second];
      return entry.suspect && entry.confirmations.measured > 0 && !entry.slow();
    });
  }

  void judge_chance() {
    for (EndEvidence& entry : evidence_.ends) {
      entry.pairs = pairs_[entry.end];
      entry.dipped = dips_[entry.end].slow;
      entry.measured = dips_[entry.end].measured;
      // If it is slow alone too, that speaks against it; if not, it is about the load: no evidence for it.
      const int alone = entry.alone.slow;
      entry.chance = nends_ * tail(entry.pairs.slow + entry.confirmations.slow + alone,
                                   entry.pairs.measured + entry.confirmations.measured + alone, evidence_.slow_share);
      entry.sustained = dips_[entry.end].mean() / sustained_;
      entry.dip_chance = nends_ * tail(entry.dipped, entry.measured, dip_share_);
    }
    for (LinkEvidence& link : evidence_.links) {
      const int times = link.measurements.slow + link.alone.slow;
      // Without its own first measurement: of three units' pairs it is a third of what is known.
      const double share = smoothed(std::max(0, slow_ - 1), std::max(0, evidence_.good_measurements - 1));
      link.chance = static_cast<double>(evidence_.pairs.size()) * std::pow(share, times);
    }
  }

  std::span<const PairResult> results_;
  int nunits_;
  int nends_;
  double threshold_;
  double dip_share_ = 0;
  double sustained_ = 1;  ///< by the others
  int slow_ = 0;          ///< of evidence_.good_measurements
  std::vector<double> factors_;
  std::vector<SlowCount> pairs_;
  std::vector<Dips> dips_;
  std::map<int, std::size_t> index_;
  std::map<std::pair<int, int>, std::size_t> link_index_;
  PairEvidence evidence_;
};

}  // namespace

Screen screen_pairs(std::span<const MeasuredPair> pairs, int nends, double threshold, bool few) {
  Screen screen;
  screen.score = scores(pairs, nends);
  screen.state.assign(static_cast<std::size_t>(nends), Screen::State::unknown);
  if (pairs.empty()) return screen;
  const auto both_good = [&](const MeasuredPair& pair) { return screen.good(pair.a) && screen.good(pair.b); };
  // First find good ends by a rough idea of normal, then normal from the good ends; scores are the best of several and
  // a little high, and so is a rough idea built from them.
  if (few) {
    screen.reference = best_quartile(mapped(pairs, &MeasuredPair::bandwidth));
  } else {
    // The typical end rather than the typical pair: with a third of the units slow most pairs are, but not most units'
    // best.
    std::vector<double> known = screen.score;
    std::erase_if(known, [](double x) { return std::isnan(x); });
    screen.reference = median(known);
  }
  for (int pass = 0; pass < 2; ++pass) {
    screen.state = states(screen.score, threshold * screen.reference);
    std::vector<double> normal;
    for (const MeasuredPair& pair : pairs) {
      if (both_good(pair)) normal.push_back(pair.bandwidth);
    }
    if (!normal.empty()) screen.reference = median(normal);
  }
  screen.state = states(screen.score, threshold * screen.reference);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (both_good(pairs[i]) && pairs[i].bandwidth < threshold * screen.reference)
      screen.slow_pairs.push_back(static_cast<int>(i));
  }
  const auto faster = std::ranges::count_if(screen.score, [&](double x) { return x * threshold > screen.reference; });
  screen.faster_share = static_cast<double>(faster) / nends;
  return screen;
}

void SlowCount::add(double ratio, bool is_slow) {
  ++measured;
  if (!is_slow) return;
  ++slow;
  sum += ratio;
  squares += ratio * ratio;
}

double SlowCount::mean() const { return slow == 0 ? 0 : sum / slow; }

double SlowCount::deviation() const {
  if (slow < 2) return 0;
  return std::sqrt(std::max(0.0, (squares - sum * sum / slow) / (slow - 1)));
}

bool EndEvidence::comes_and_goes() const {
  if (blamed() || confirmations.measured == 0) return false;
  constexpr int kTimes = 3;
  const bool often_slow = pairs.slow + confirmations.slow >= kTimes && confirmations.slow > 0 && chance <= kFalseAlarms;
  return often_slow || (dipped >= kTimes && dip_chance <= kFalseAlarms);
}

PairEvidence score_pairs(std::span<const PairResult> results, bool one_way, int nunits, double threshold, bool few) {
  return PairScoring(results, one_way, nunits, threshold, few).score();
}

}  // namespace busbar
