#include "common/record/cell.h"

#include "common/statistics/interval.h"

#include <cmath>
#include <map>

namespace busbar {

std::string slowest_scope(std::span<const Cell* const> cells) {
  std::map<std::tuple<std::uint64_t, std::string, std::string>, std::map<std::string, std::vector<double>>> sizes;
  for (const Cell* cell : cells) {
    if (cell->median_s > 0 && std::isfinite(cell->median_s))
      sizes[{cell->nbytes, cell->dtype, cell->op}][cell->scope].push_back(cell->median_s);
  }
  std::map<std::string, std::vector<double>> shares;
  for (const auto& [size, scopes] : sizes) {
    std::vector<double> times;
    for (const auto& [scope, again] : scopes) times.push_back(median(again));
    const double usual = median(times);
    for (const auto& [scope, again] : scopes) shares[scope].push_back(median(again) / usual);
  }
  std::string slowest;
  double most = 0;
  for (const auto& [scope, of_usual] : shares) {
    double sum = 0;
    for (const double share : of_usual) sum += share;
    const double mean = sum / static_cast<double>(of_usual.size());
    if (mean <= most) continue;
    most = mean;
    slowest = scope;
  }
  return slowest;
}

void set_stats(Cell& cell, const CellStats& stats) {
  cell.median_s = stats.median_s;
  cell.interval_s = stats.interval_s;
  cell.relative_half_width = stats.relative_half_width;
  cell.span_s = stats.span_s;
  cell.correlation_time_s = stats.correlation_time_s;
  cell.epoch_medians_s = stats.epoch_medians_s;
  cell.calls_per_epoch = static_cast<double>(stats.samples_per_epoch) * stats.calls_per_sample;
  cell.stop = stats.stop;
  cell.samples = stats.samples;
  cell.shared_cores = stats.shared_cores;
  cell.ranks = stats.ranks;
}

}  // namespace busbar
