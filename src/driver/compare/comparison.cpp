#include "driver/compare/comparison.h"

#include "common/base/lists.h"
#include "common/statistics/interval.h"
#include "common/statistics/paired.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace busbar {
namespace {

/// Error of the whole comparison, shared among its cells by Holm: 5 %, of which each look may spend its part. Launches
/// have one look.
double whole_error(bool between_launches) { return between_launches ? 0.05 : kLookLevel; }

bool comparable(const VariantCell& cell) { return cell.usable() && cell.ratio.has_value(); }

/// Estimate of the time over the default's; the default's own is 1.
double estimate(const ComparedCase& compared, std::size_t v) { return v == 0 ? 1 : compared.variants[v].ratio->value; }

bool is_candidate(const ComparedCase& compared, std::size_t v) {
  const VariantCell& cell = compared.variants[v];
  return !cell.dropped && (v == 0 ? cell.usable() : comparable(cell));
}

/// Index of the fastest of those that `take` admits, by estimate; 0 for none.
template <class Take>
std::size_t fastest_of(const ComparedCase& compared, Take take) {
  std::size_t best = 0;
  bool found = false;
  for (std::size_t v = 0; v < compared.variants.size(); ++v) {
    if (!take(v)) continue;
    if (!found || estimate(compared, v) < estimate(compared, best)) best = v;
    found = true;
  }
  return best;
}

/// Of the rounds that both ran: one may have left the size earlier.
std::vector<double> common_log_ratios(const VariantCell& a, const VariantCell& b) {
  const std::size_t rounds = std::min(a.rounds_s.size(), b.rounds_s.size());
  return log_ratios(std::span(a.rounds_s).first(rounds), std::span(b.rounds_s).first(rounds));
}

/// The difference that Holm's adjustment leaves; band and interval have decided the rest.
Difference surviving(Difference difference, double adjusted_p, bool between_launches) {
  const bool differs = difference == Difference::faster || difference == Difference::slower;
  return differs && adjusted_p > whole_error(between_launches) ? Difference::undecided : difference;
}

/// b against a at every size where both ran, adjusted over the sizes; never more than the table says of the default.
std::vector<SizedVerdict> verdicts_between(const Comparison& comparison, std::size_t a, std::size_t b) {
  std::vector<SizedVerdict> verdicts;
  std::vector<double> p;
  for (const ComparedCase& c : comparison.cases) {
    const VariantCell& first = c.variants[a];
    const VariantCell& second = c.variants[b];
    if (!first.usable() || !second.usable()) continue;
    const auto ratio = ratio_between(first, second, comparison.between_launches);
    if (!ratio) continue;
    verdicts.push_back({c.row_case.nbytes, judge(ratio->interval, comparison.delta), *ratio});
    p.push_back(round_p(common_log_ratios(first, second), comparison.delta));
    if (a == 0) verdicts.back().difference = second.difference;
  }
  const std::vector<double> adjusted = holm(p);
  for (std::size_t i = 0; i < verdicts.size(); ++i)
    verdicts[i].difference = surviving(verdicts[i].difference, adjusted[i], comparison.between_launches);
  return verdicts;
}

/// Holm over all cells of the comparison; what does not survive it is undecided.
void adjust(Comparison& comparison) {
  std::vector<VariantCell*> cells;
  std::vector<double> p;
  for (ComparedCase& compared : comparison.cases) {
    for (std::size_t v = 1; v < compared.variants.size(); ++v) {
      if (!comparable(compared.variants[v])) continue;
      cells.push_back(&compared.variants[v]);
      p.push_back(compared.variants[v].band_p);
    }
  }
  const std::vector<double> adjusted = holm(p);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    cells[i]->adjusted_p = adjusted[i];
    cells[i]->difference = surviving(cells[i]->difference, adjusted[i], comparison.between_launches);
  }
}

/// Default's time over the winner's, less 1, without the winner's luck: of several equally fast variants noise decides
/// which wins, and its own rounds flatter it. Of each round it counts what that variant took which wins without the
/// round.
template <class Take>
double gain_of_choosing(const ComparedCase& compared, Take take) {
  constexpr std::size_t kLeast = 4;
  std::size_t rounds = compared.variants[0].rounds_s.size();
  std::vector<std::vector<double>> candidates;
  for (std::size_t v = 0; v < compared.variants.size(); ++v) {
    if (!take(v) || compared.variants[v].dropped) continue;
    candidates.push_back(common_log_ratios(compared.variants[0], compared.variants[v]));
    rounds = std::min(rounds, candidates.back().size());
  }
  const double shown = 1 / compared.variants[fastest_of(compared, take)].ratio->value - 1;
  if (candidates.size() < 2 || rounds < kLeast) return shown;
  std::vector<double> honest;
  for (std::size_t left_out = 0; left_out < rounds; ++left_out) {
    std::size_t best = 0;
    double least = INFINITY;
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      double sum = 0;
      for (std::size_t r = 0; r < rounds; ++r) sum += r == left_out ? 0 : candidates[c][r];
      if (sum < least) best = c;
      least = std::min(least, sum);
    }
    honest.push_back(candidates[best][left_out]);
  }
  return std::max(0.0, 1 / round_ratio(honest)->value - 1);
}

void decide(ComparedCase& compared) {
  compared.winner = -1;
  compared.regret = 0;
  compared.fastest = static_cast<int>(fastest_of(compared, [&](std::size_t v) {
    return v == 0 ? compared.variants[0].usable() : comparable(compared.variants[v]);
  }));
  const auto faster = [&](std::size_t v) {
    return v > 0 && comparable(compared.variants[v]) && compared.variants[v].difference == Difference::faster;
  };
  // The fastest by estimate: none of the others can then be confidently faster than it.
  const std::size_t best = fastest_of(compared, faster);
  if (best > 0) {
    compared.winner = static_cast<int>(best);
    compared.regret = gain_of_choosing(compared, faster);
    return;
  }
  bool any = false;
  for (std::size_t v = 1; v < compared.variants.size(); ++v) {
    if (!comparable(compared.variants[v])) continue;
    if (compared.variants[v].difference != Difference::slower) return;
    any = true;
  }
  if (any) compared.winner = 0;
}

}  // namespace

std::optional<Ratio> ratio_between(const VariantCell& a, const VariantCell& b, bool between_launches) {
  return round_ratio(common_log_ratios(a, b), 1 - whole_error(between_launches));
}

void judge_rounds(ComparedCase& compared, double delta, bool between_launches) {
  for (std::size_t v = 0; v < compared.variants.size(); ++v) {
    VariantCell& cell = compared.variants[v];
    const VariantCell& base = compared.variants[0];
    cell.median_s = cell.why_not.empty() && cell.wrong == 0 ? median(cell.rounds_s) : 0;
    if (!cell.usable() || !base.usable()) continue;
    if (v == 0) {
      cell.ratio = Ratio{};
      cell.difference = Difference::equivalent;
      continue;
    }
    cell.ratio = ratio_between(base, cell, between_launches);
    if (!cell.ratio) continue;
    const std::vector<double> logs = common_log_ratios(base, cell);
    cell.p = round_p(logs);
    cell.band_p = round_p(logs, delta);
    cell.probability_faster = probability_faster(std::span(base.rounds_s).first(logs.size()), cell.rounds_s);
    cell.difference = judge(cell.ratio->interval, delta);
  }
}

std::vector<std::size_t> too_slow(const ComparedCase& compared, double delta) {
  std::vector<std::vector<double>> times;
  std::vector<std::size_t> racing;
  for (std::size_t v = 0; v < compared.variants.size(); ++v) {
    times.push_back(compared.variants[v].rounds_s);
    if (is_candidate(compared, v)) racing.push_back(v);
  }
  std::vector<std::size_t> slow;
  if (racing.size() < 3) return slow;  // with one rival there is nothing to save
  const std::vector<std::size_t> kept = survivors(times, racing, delta);
  std::set_difference(racing.begin(), racing.end(), kept.begin(), kept.end(), std::back_inserter(slow));
  return slow;
}

bool settled(const ComparedCase& compared, double delta) {
  const auto racing = [&](std::size_t v) { return is_candidate(compared, v); };
  const std::size_t best = fastest_of(compared, racing);
  for (std::size_t v = 1; v < compared.variants.size(); ++v) {
    if (!racing(v)) continue;
    if (compared.variants[v].difference == Difference::undecided) return false;
    const VariantCell& leader = compared.variants[best];
    const VariantCell& cell = compared.variants[v];
    const auto ratio = ratio_between(leader, cell, false);
    if (v != best && (!ratio || judge(ratio->interval, delta) == Difference::undecided)) return false;
  }
  return true;
}

std::vector<std::size_t> leaders(const ComparedCase& compared, double delta, bool between_launches) {
  std::vector<std::size_t> result;
  if (!compared.variants[0].usable()) return result;
  const auto best = static_cast<std::size_t>(compared.fastest);
  result.push_back(best);
  for (std::size_t v = 0; v < compared.variants.size(); ++v) {
    const VariantCell& cell = compared.variants[v];
    if (v == best || cell.dropped || !(v == 0 ? cell.usable() : comparable(cell))) continue;
    const auto ratio = ratio_between(compared.variants[best], cell, between_launches);
    if (!ratio || judge(ratio->interval, delta) != Difference::slower) result.push_back(v);
  }
  return result;
}

void conclude(Comparison& comparison) {
  adjust(comparison);
  for (ComparedCase& compared : comparison.cases) decide(compared);
}

std::vector<NamedCrossover> named_crossovers(const Comparison& comparison) {
  const auto leading = mapped(comparison.cases, [&](const ComparedCase& c) {
    return leaders(c, comparison.delta, comparison.between_launches);
  });
  const auto leads = [&](std::size_t v, std::uint64_t nbytes) {
    for (std::size_t i = 0; i < comparison.cases.size(); ++i) {
      if (comparison.cases[i].row_case.nbytes != nbytes) continue;
      return contains(leading[i], v);
    }
    return false;
  };
  std::vector<NamedCrossover> found;
  for (std::size_t a = 0; a < comparison.variants.size(); ++a) {
    for (std::size_t b = a + 1; b < comparison.variants.size(); ++b) {
      const std::vector<SizedVerdict> verdicts = verdicts_between(comparison, a, b);
      for (const Crossover& c : crossovers(verdicts)) {
        const std::size_t below = c.b_wins_above ? a : b;
        const std::size_t above = c.b_wins_above ? b : a;
        if (leads(below, c.low) && leads(above, c.high)) found.push_back({below, above, c});
      }
    }
  }
  std::ranges::stable_sort(found, [](const NamedCrossover& x, const NamedCrossover& y) {
    return x.crossover.low != y.crossover.low ? x.crossover.low < y.crossover.low : x.above < y.above;
  });
  return found;
}

std::vector<std::optional<HockneyFit>> hockney_fits(const Comparison& comparison) {
  constexpr std::size_t kLeastSizes = 3;  // two always fit
  constexpr double kNoFit = 0.3;
  std::vector<std::optional<HockneyFit>> fits;
  for (std::size_t v = 0; v < comparison.variants.size(); ++v) {
    std::vector<SizedTime> times;
    for (const ComparedCase& c : comparison.cases) {
      if (c.variants[v].usable()) times.push_back({c.row_case.nbytes, c.variants[v].median_s});
    }
    fits.push_back(times.size() < kLeastSizes ? std::nullopt : fit_hockney(times));
    if (fits.back() && !(fits.back()->worst_relative_error < kNoFit)) fits.back().reset();
  }
  return fits;
}

CellCounts count_cells(const Comparison& comparison) {
  CellCounts counts;
  for (const ComparedCase& c : comparison.cases) {
    for (std::size_t v = 0; v < c.variants.size(); ++v) {
      const VariantCell& cell = c.variants[v];
      if (cell.wrong > 0) ++counts.wrong;
      if (!cell.why_not.empty()) ++counts.not_possible;
      if (v == 0 || !cell.usable()) continue;
      ++counts.compared;
      if (cell.difference != Difference::undecided) continue;
      ++counts.undecided;
      if (c.out_of_time) ++counts.out_of_time;
    }
  }
  return counts;
}

bool any_wrong(std::span<const Comparison> comparisons) {
  return std::ranges::any_of(comparisons, [](const Comparison& c) { return count_cells(c).wrong > 0; });
}

std::optional<std::uint64_t> next_size_between(const Comparison& comparison) {
  constexpr double kNarrow = 1.10;  // of the ends of a bracket
  constexpr double kNear = 1.03;
  for (const NamedCrossover& found : named_crossovers(comparison)) {
    const auto low = static_cast<double>(found.crossover.low);
    const auto high = static_cast<double>(found.crossover.high);
    if (low <= 0 || high / low <= kNarrow) continue;
    const double middle = std::sqrt(low * high);
    const bool is_near = std::ranges::any_of(comparison.cases, [&](const ComparedCase& c) {
      const auto at = static_cast<double>(c.row_case.nbytes);
      return at < middle * kNear && middle < at * kNear;
    });
    if (!is_near) return static_cast<std::uint64_t>(std::lround(middle));
  }
  return std::nullopt;
}

bool is_new(const Comparison& comparison, std::uint64_t nbytes) {
  return std::ranges::none_of(comparison.cases, [&](const ComparedCase& c) { return c.row_case.nbytes == nbytes; });
}

}  // namespace busbar
