#include "driver/locate/screen_pairs.h"

#include "common/statistics/interval.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>

namespace busbar {
namespace {

std::vector<double> scores(std::span<const MeasuredPair> pairs, int nends) {
  std::vector<std::vector<double>> of(static_cast<std::size_t>(nends));
  for (const MeasuredPair& pair : pairs) {
    of[static_cast<std::size_t>(pair.a)].push_back(pair.bandwidth);
    of[static_cast<std::size_t>(pair.b)].push_back(pair.bandwidth);
  }
  std::vector<double> score;
  for (std::vector<double>& values : of) {
    if (values.empty()) {
      score.push_back(std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    // Of many pairs the best is the luckiest: the one that an eighth of them reaches.
    const auto place = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 8);
    std::nth_element(values.begin(), place, values.end(), std::greater<>());
    score.push_back(*place);
  }
  return score;
}

double best_quartile(std::span<const MeasuredPair> pairs) {
  std::vector<double> values;
  for (const MeasuredPair& pair : pairs) values.push_back(pair.bandwidth);
  std::sort(values.begin(), values.end(), std::greater<>());
  values.resize((values.size() + 3) / 4);
  return median(values);
}

/// The typical end rather than the typical pair: with a third of the units slow most pairs are, but not most units'
/// best.
double median_score(const std::vector<double>& score) {
  std::vector<double> values;
  std::copy_if(score.begin(), score.end(), std::back_inserter(values), [](double x) { return !std::isnan(x); });
  return median(values);
}

std::vector<Screen::State> states(const std::vector<double>& score, double limit) {
  std::vector<Screen::State> state;
  for (const double value : score) {
    state.push_back(std::isnan(value) ? Screen::State::unknown
                    : value < limit   ? Screen::State::suspect
                                      : Screen::State::good);
  }
  return state;
}

}  // namespace

Screen screen_pairs(std::span<const MeasuredPair> pairs, int nends, double threshold, bool few) {
  Screen screen;
  screen.score = scores(pairs, nends);
  screen.state.assign(static_cast<std::size_t>(nends), Screen::State::unknown);
  if (pairs.empty()) return screen;
  const auto both_good = [&](const MeasuredPair& pair) {
    return screen.state[static_cast<std::size_t>(pair.a)] == Screen::State::good &&
           screen.state[static_cast<std::size_t>(pair.b)] == Screen::State::good;
  };
  // First who is good against a rough idea of normal, then normal from those who are good; scores are the best of
  // several and a little high, and so is a rough idea made of them.
  screen.reference = few ? best_quartile(pairs) : median_score(screen.score);
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
    if (both_good(pairs[i]) && pairs[i].bandwidth < threshold * screen.reference) {
      screen.slow_pairs.push_back(static_cast<int>(i));
    }
  }
  const auto faster = std::count_if(screen.score.begin(), screen.score.end(),
                                    [&](double x) { return x * threshold > screen.reference; });
  screen.faster_share = static_cast<double>(faster) / nends;
  return screen;
}

}  // namespace busbar
