#include "common/statistics/prediction.h"

#include "common/statistics/distributions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace busbar {
namespace {

constexpr double kMinute = 60;           // [s] the predicted time
constexpr double kAlpha = 0.05;          // outside of the interval
constexpr std::size_t kLeastEpochs = 6;  // as in the sign test
constexpr std::size_t kMostBlocks = 48;

// The grid. Correlation times above half the span are left out: they would widen all intervals.
constexpr int kCorrelationTimes = 12;
// Only for the stop also longer ones, to some eight spans, where a drift is a level that the next minute leaves.
constexpr int kLonger = 8;
constexpr double kShownMemories = 6;  // correlation times in a span for its drift to be known
constexpr double kStrong = 3;         // variance within the span over that of the noise, to exceed it
constexpr double kExcluded = 0.003;   // chance below which a correlation time is excluded
constexpr std::array<double, 8> kNoises{0.001, 0.01, 0.1, 0.3, 1, 3, 10, 100};  // variance over that of the drift

/// P(T <= t) for an even number of degrees of freedom (Abramowitz & Stegun 26.7.4): called some thousand times per
/// prediction, 30 times as fast as a function for any number.
double student_t_below(double t, int degrees) {
  const double sine = t / std::sqrt(degrees + t * t);
  const double square = degrees / (degrees + t * t);
  double term = 1;
  double sum = 1;
  for (int power = 2; power <= degrees - 2; power += 2) {
    term *= square * (power - 1) / power;
    sum += term;
  }
  return 0.5 + 0.5 * sine * sum;
}

/// The epochs in blocks of neighbors, at most kMostBlocks: more say no more, and medians of blocks have no spikes.
struct Blocks {
  std::vector<double> log_time;
  std::vector<double> at_s;
  std::vector<double> score;         ///< normal score of log_time
  std::vector<double> sorted;        ///< log_time
  std::vector<double> sorted_score;  ///< of sorted
  double scale = 0;                  ///< log_time per unit of score: half the central 68 %

  std::size_t size() const { return at_s.size(); }
};

Blocks blocks_of(std::span<const double> medians_s, std::span<const double> times_s) {
  constexpr double kShortest = 1e-15;  // [s]
  Blocks blocks;
  const std::size_t n = medians_s.size();
  const std::size_t count = std::min(n, kMostBlocks);
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t first = n * k / count;
    const std::size_t size = n * (k + 1) / count - first;
    const double middle = median(medians_s.subspan(first, size));
    double time_s = 0;
    for (double at_s : times_s.subspan(first, size)) time_s += at_s;
    blocks.log_time.push_back(std::log(std::max(middle, kShortest)));
    blocks.at_s.push_back(time_s / static_cast<double>(size));
    // Blom (1958): the expected order statistics of a normal sample.
    blocks.sorted_score.push_back(
        normal_quantile((static_cast<double>(k) + 0.625) / (static_cast<double>(count) + 0.25)));
  }
  blocks.sorted = in_order(blocks.log_time, "prediction");
  blocks.scale = (quantile(blocks.sorted, 0.84) - quantile(blocks.sorted, 0.16)) / 2;
  for (double value : blocks.log_time) {
    const auto [first, last] = std::equal_range(blocks.sorted.begin(), blocks.sorted.end(), value);
    double sum = 0;  // ties share the mean of their scores
    for (auto at = first; at != last; ++at)
      sum += blocks.sorted_score[static_cast<std::size_t>(at - blocks.sorted.begin())];
    blocks.score.push_back(sum / static_cast<double>(last - first));
  }
  return blocks;
}

/// The logarithm of the time at this score. Beyond the central 80 % from the scale alone: the outermost values are
/// spikes, and the next minute may well be outside of all that was seen.
double log_time_at(const Blocks& blocks, double score) {
  const std::size_t first = blocks.size() / 10;
  const std::size_t last = blocks.size() - 1 - first;
  const std::vector<double>& scores = blocks.sorted_score;
  if (score <= scores[first]) return blocks.sorted[first] + (score - scores[first]) * blocks.scale;
  if (score >= scores[last]) return blocks.sorted[last] + (score - scores[last]) * blocks.scale;
  const auto above = static_cast<std::size_t>(std::upper_bound(scores.begin(), scores.end(), score) - scores.begin());
  const double share = (score - scores[above - 1]) / (scores[above] - scores[above - 1]);
  return blocks.sorted[above - 1] + share * (blocks.sorted[above] - blocks.sorted[above - 1]);
}

/// The next minute's average score under one correlation time and noise: Student's t.
struct Component {
  double weight = 0;  ///< its logarithm, until all are known
  double mean = 0;
  double deviation = 0;
  double correlation_time_s = 0;
  bool strong = false;  ///< its movement within the span exceeds the noise
};

/// Kalman's filter over the scores and, in parallel, over ones: together they integrate out the unknown mean (flat),
/// and the sum of squares integrates out the scale (its logarithm flat).
Component component_of(const Blocks& blocks, double span_s, double correlation_time_s, double noise_ratio) {
  const double drift = 1 / (1 + noise_ratio);
  const double noise = 1 - drift;
  const auto degrees = static_cast<double>(blocks.size() - 1);
  double scores = 0;  // the filtered wandering part, if the mean were 0
  double ones = 0;    // its shift by a mean of 1
  double variance = drift;
  double determinant = 1;
  double oo = 0;
  double so = 0;
  double ss = 0;
  for (std::size_t k = 0; k < blocks.size(); ++k) {
    if (k > 0) {
      const double kept = std::exp((blocks.at_s[k - 1] - blocks.at_s[k]) / correlation_time_s);
      scores *= kept;
      ones *= kept;
      variance = kept * kept * variance + drift * (1 - kept * kept);
    }
    const double all = variance + noise;
    const double score_left = blocks.score[k] - scores;
    const double one_left = 1 - ones;
    determinant *= all;
    oo += one_left * one_left / all;
    so += one_left * score_left / all;
    ss += score_left * score_left / all;
    const double gain = variance / all;
    scores += gain * score_left;
    ones += gain * one_left;
    variance -= gain * variance;
  }
  const double mean = so / oo;
  const double squares = std::max(ss - so * so / oo, 1e-12);
  // The minute's average keeps this share of the drift at the end.
  const double kept = correlation_time_s / kMinute * (1 - std::exp(-kMinute / correlation_time_s));
  const double of_mean = 1 - kept * ones;
  const double ahead = drift * (2 * correlation_time_s / kMinute * (1 - kept) - kept * kept);
  // Noise that is white from block to block may be drift faster than the blocks.
  const double white = noise * span_s / static_cast<double>(blocks.size()) / kMinute;
  Component c;
  c.weight = -0.5 * (std::log(determinant) + std::log(oo) + degrees * std::log(squares));
  c.mean = mean + kept * (scores - mean * ones);
  c.deviation = std::sqrt((of_mean * of_mean / oo + kept * kept * variance + ahead + white) * squares / degrees);
  c.correlation_time_s = correlation_time_s;
  c.strong = 1 - std::exp(-span_s / correlation_time_s) >= kStrong * noise_ratio;
  return c;
}

/// `count` correlation times from `correlation_time_s` on, each `ratio` times the last one.
std::vector<Component> components_of(const Blocks& blocks, double span_s, double correlation_time_s, double ratio,
                                     int count) {
  std::vector<Component> all;
  for (int i = 0; i < count; ++i, correlation_time_s *= ratio)
    for (double noise : kNoises) all.push_back(component_of(blocks, span_s, correlation_time_s, noise));
  return all;
}

/// Turns weights into shares: they add up to 1.
void normalise(std::vector<Component>& all) {
  const double best = std::ranges::max_element(all, {}, &Component::weight)->weight;
  double sum = 0;
  for (Component& c : all) sum += c.weight = std::exp(c.weight - best);
  for (Component& c : all) c.weight /= sum;
}

/// The widest half width that correlation times from `least_s` on give, of those not excluded. No span of reasonable
/// length could exclude a drift that is weaker than the noise.
double slow_half_width(const Blocks& blocks, std::vector<Component> all, double least_s) {
  std::ranges::sort(all, std::ranges::greater{}, &Component::deviation);
  double chance = 0;
  for (const Component& c : all) {
    if (c.correlation_time_s >= least_s && c.strong) chance += c.weight;
    if (chance > kExcluded) return 2 * c.deviation * blocks.scale;  // 95 %
  }
  return 0;
}

double mixture_quantile(const std::vector<Component>& all, int degrees, double p) {
  double low = -40;
  double high = 40;
  for (int i = 0; i < 36; ++i) {
    const double middle = (low + high) / 2;
    double below = 0;
    for (const Component& c : all) {
      // Skips components of no weight to save time.
      if (c.weight > 1e-4) below += c.weight * student_t_below((middle - c.mean) / c.deviation, degrees);
    }
    (below < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace

MedianPrediction predict_median(std::span<const double> medians_s, std::span<const double> times_s) {
  MedianPrediction prediction;
  prediction.value = median(medians_s);
  const std::size_t n = medians_s.size();
  if (n < 2) return prediction;
  // Each epoch represents the time until the next.
  prediction.span_s = (times_s.back() - times_s.front()) * static_cast<double>(n) / static_cast<double>(n - 1);
  if (n < kLeastEpochs) return prediction;
  const Blocks blocks = blocks_of(medians_s, times_s);
  if (blocks.sorted.front() == blocks.sorted.back()) {  // within the clock's resolution
    prediction.interval = Interval{prediction.value, prediction.value};
    return prediction;
  }
  const double span_s = std::max(prediction.span_s, 1e-9);
  const auto count = static_cast<double>(blocks.size());
  const double ratio = std::exp(std::log(count) / (kCorrelationTimes - 1));
  std::vector<Component> all = components_of(blocks, span_s, span_s / 2 / count, ratio, kCorrelationTimes);
  std::vector<Component> longer = components_of(blocks, span_s, span_s / 2 * ratio, ratio, kLonger);
  longer.insert(longer.end(), all.begin(), all.end());
  normalise(all);
  double log_correlation_time = 0;
  for (const Component& c : all) log_correlation_time += c.weight * std::log(c.correlation_time_s);
  prediction.correlation_time_s = std::exp(log_correlation_time);
  // Two less than a known correlation time and noise would leave: with ten epochs the grid is uncertain, and 89 % were
  // covered. Even, and no larger than matters.
  const int degrees = std::min(static_cast<int>(blocks.size() - 3) / 2 * 2, 30);
  const double low = std::exp(log_time_at(blocks, mixture_quantile(all, degrees, kAlpha / 2)));
  const double high = std::exp(log_time_at(blocks, mixture_quantile(all, degrees, 1 - kAlpha / 2)));
  prediction.interval = Interval{std::min(low, prediction.value), std::max(high, prediction.value)};
  normalise(longer);
  prediction.slow_half_width = slow_half_width(blocks, longer, span_s / kShownMemories);
  return prediction;
}

double MedianPrediction::relative_half_width() const {
  if (!interval) return std::numeric_limits<double>::infinity();
  if (interval->high == interval->low) return 0;
  return value > 0 ? (interval->high - interval->low) / (2 * value) : std::numeric_limits<double>::infinity();
}

}  // namespace busbar
