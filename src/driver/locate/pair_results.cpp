#include "driver/locate/pair_results.h"

#include "common/statistics/interval.h"

#include <algorithm>
#include <cstddef>

namespace busbar {
namespace {

bool good(const Screen& screen, int end) { return screen.state[static_cast<std::size_t>(end)] == Screen::State::good; }

}  // namespace

std::vector<MeasuredPair> pairs_of_screen(std::span<const PairResult> results, bool one_way, int nunits,
                                          std::span<const double> round_factor) {
  std::vector<MeasuredPair> all;
  for (const PairResult& result : results) {
    if (result.one_way != one_way || !of_screen(result)) continue;
    const double factor = result.round < round_factor.size() ? round_factor[result.round] : 1;
    all.push_back({first_end(result), second_end(result, nunits), static_cast<double>(result.bandwidth) / factor});
  }
  std::sort(all.begin(), all.end(), [](const MeasuredPair& x, const MeasuredPair& y) {
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

std::vector<double> round_factors(std::span<const PairResult> results, bool one_way, int nunits, const Screen& screen) {
  constexpr std::size_t kEnough = 8;
  std::vector<std::vector<double>> of_round;
  for (const PairResult& result : results) {
    const bool loaded = result.kind != LocateRound::Kind::alone && result.kind != LocateRound::Kind::rail;
    if (result.one_way != one_way || !loaded || result.tested != PairResult::kNothing) continue;
    if (!good(screen, first_end(result)) || !good(screen, second_end(result, nunits))) continue;
    if (of_round.size() <= result.round) of_round.resize(result.round + std::size_t{1});
    of_round[result.round].push_back(static_cast<double>(result.bandwidth));
  }
  std::vector<double> factors;
  for (const std::vector<double>& values : of_round) {
    factors.push_back(values.size() < kEnough ? 1 : median(values) / screen.reference);
  }
  return factors;
}

}  // namespace busbar
