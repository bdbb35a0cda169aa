#include "common/record/cell.h"

#include "common/base/lists.h"

#include <cmath>
#include <map>
#include <numeric>

namespace busbar {

TypicalCell typical(std::span<const Cell* const> cells) {
  if (cells.size() == 1) return {cells.front()->median_s, cells.front()->busbw, cells.front()->wrong};
  std::map<std::string, std::vector<double>> scopes;
  std::vector<double> bytes;  // [1e9 B] times the collective's factor, which differs between hosts of unequal ranks
  TypicalCell all;
  for (const Cell* cell : cells) {
    all.wrong = all.wrong && cell->wrong ? std::optional(*all.wrong + *cell->wrong) : std::nullopt;
    scopes[cell->scope].push_back(cell->median_s);
    bytes.push_back(cell->busbw * cell->median_s);
  }
  all.median_s = median(mapped(scopes, [](const auto& one) { return median(one.second); }));
  if (all.median_s > 0) all.busbw = median(bytes) / all.median_s;
  return all;
}

std::string slowest_scope(std::span<const Cell* const> cells) {
  std::map<std::tuple<std::uint64_t, std::string, std::string>, std::map<std::string, std::vector<double>>> sizes;
  for (const Cell* cell : cells) {
    if (cell->median_s > 0 && std::isfinite(cell->median_s))
      sizes[{cell->nbytes, cell->dtype, cell->op}][cell->scope].push_back(cell->median_s);
  }
  std::map<std::string, std::vector<double>> shares;
  for (const auto& [size, scopes] : sizes) {
    const double usual = median(mapped(scopes, [](const auto& one) { return median(one.second); }));
    for (const auto& [scope, again] : scopes) shares[scope].push_back(median(again) / usual);
  }
  std::string slowest;
  double most = 0;
  for (const auto& [scope, of_usual] : shares) {
    const double mean = std::accumulate(of_usual.begin(), of_usual.end(), 0.0) / static_cast<double>(of_usual.size());
    if (mean <= most) continue;
    most = mean;
    slowest = scope;
  }
  return slowest;
}

void set_stats(Cell& cell, const CellStats& stats) {
  static_cast<CellTimes&>(cell) = static_cast<const CellTimes&>(stats);
  for (const Quantile& quantile : stats.quantiles)
    if (quantile.q == 0.99) cell.p99_s = quantile.value_s;
  cell.calls_per_epoch = static_cast<double>(stats.samples_per_epoch) * stats.calls_per_sample;
}

}  // namespace busbar
