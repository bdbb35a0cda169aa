#include "common/base/units.h"
#include "common/measure/arena.h"
#include "common/measure/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace busbar {
namespace {

constexpr std::size_t kManySizes = 100;
constexpr double kLongTime = 600;   ///< [s]
constexpr double kLatency = 20e-6;  ///< [s]

bool same_sweep(const Case& a, const Case& b) { return a.dtype == b.dtype && a.op == b.op && a.root == b.root; }

std::size_t count_sizes(const Plan& plan) {
  return static_cast<std::size_t>(std::count_if(plan.cases.begin(), plan.cases.end(),
                                                [&](const Case& c) { return same_sweep(c, plan.cases.front()); }));
}

int count_halves(const Plan& plan, const Config& config) {
  return config.placement == Placements::both && plan.collective->in_place != nullptr ? 2 : 1;
}

std::string duration_words(const Plan& plan, const Config& config, double assumed_busbw) {
  const double cycle_s = estimate_time_s(plan, config, assumed_busbw);
  if (config.run_cycles == 0) return fmt::format("about {} per cycle, without end (-N 0)", format_duration(cycle_s));
  return fmt::format("about {}", format_duration(cycle_s * config.run_cycles));
}

std::string row_words(std::size_t n) { return fmt::format("{} row{}", n, n == 1 ? "" : "s"); }

std::string row_line(const Collective& collective, const Case& c) {
  return fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}\n", c.nbytes, c.problem.count, name(c.dtype),
                     c.op ? name(*c.op) : "none", collective.has_root ? c.root : -1);
}

/// All rows, or the first and last of many.
std::string row_lines(const Plan& plan) {
  constexpr std::size_t kHead = 40;
  constexpr std::size_t kTail = 10;
  const std::size_t n = plan.cases.size();
  const std::size_t hidden = n > kHead + kTail + 1 ? n - kHead - kTail : 0;
  std::string text = fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}\n", "size (B)", "count", "type", "redop", "root");
  for (std::size_t i = 0; i < n; ++i) {
    if (hidden > 0 && i == kHead) {
      text += fmt::format("{:>12}  ({} more rows)\n", "...", hidden);
      i += hidden;
    }
    text += row_line(*plan.collective, plan.cases[i]);
  }
  return text;
}

std::string skip_line(const Collective& collective, const Skip& skip) {
  std::string what(name(skip.dtype));
  if (skip.op) what += fmt::format(" {}", name(*skip.op));
  if (collective.has_root) what += fmt::format(" root {}", skip.root);
  return fmt::format("skipped: {}: {}\n", what, skip.reason);
}

std::string memory_lines(const Plan& plan, const Config& config, const Backend::MemoryLimit& limit,
                         int ranks_per_host) {
  const auto largest = std::max_element(plan.cases.begin(), plan.cases.end(),
                                        [](const Case& a, const Case& b) { return a.nbytes < b.nbytes; });
  const std::size_t message = largest->nbytes;
  const std::size_t per_rank = arena_bytes(message, static_cast<std::size_t>(config.unalign) * sizeof(double));
  std::string text = fmt::format("memory: {} per rank (two buffers of {} with guards), {} per host of {} rank{}\n",
                                 format_bytes(per_rank), format_bytes(message), format_bytes(per_rank * ranks_per_host),
                                 ranks_per_host, ranks_per_host == 1 ? "" : "s");
  text += fmt::format("limit:  {} per rank ({})\n", format_bytes(limit.bytes_per_rank), limit.arithmetic);
  return text;
}

}  // namespace

double estimate_time_s(const Plan& plan, const Config& config, double assumed_busbw) {
  const double repeats = static_cast<double>(config.agg_iters) * std::max(1, config.cudagraph);
  const double operations = (config.warmup_iters + config.iters) * repeats + config.check;
  const double passes = 3.0 * (1 + config.check);
  double total_s = 0;
  for (const Case& c : plan.cases) {
    // One rank alone still copies.
    const double factor = std::max(1.0, plan.collective->bus_factor(c.problem.nranks));
    const double operation_s = kLatency + plan.collective->algorithm_bytes(c.problem) * factor / assumed_busbw;
    total_s += operations * operation_s + passes * static_cast<double>(c.nbytes) / assumed_busbw;
  }
  return total_s * count_halves(plan, config);
}

std::optional<std::string> plan_warning(const Plan& plan, const Config& config, double assumed_busbw) {
  if (plan.cases.empty()) return std::nullopt;
  const std::size_t nsizes = count_sizes(plan);
  const double time_s = estimate_time_s(plan, config, assumed_busbw) * std::max(1, config.run_cycles);
  if (nsizes <= kManySizes && time_s <= kLongTime) return std::nullopt;
  const bool additive = config.sizes.empty() && config.stepfactor <= 1 && nsizes > 16;
  return fmt::format("plan: {}, {}{}", row_words(plan.cases.size()), duration_words(plan, config, assumed_busbw),
                     additive ? "; did you mean -f 2?" : "");
}

std::string dry_run_text(const Plan& plan, const Config& config, const Backend::MemoryLimit& limit, int ranks_per_host,
                         double assumed_busbw) {
  std::string text;
  for (const Skip& skip : plan.skipped) text += skip_line(*plan.collective, skip);
  if (plan.cases.empty()) return text + fmt::format("plan: {}: nothing to run\n", plan.collective->name);
  const std::string head =
      fmt::format("plan: {} on {} rank{}, {} of {} size{}\n", plan.collective->name, plan.cases.front().problem.nranks,
                  plan.cases.front().problem.nranks == 1 ? "" : "s", row_words(plan.cases.size()), count_sizes(plan),
                  count_sizes(plan) == 1 ? "" : "s");
  text = head + row_lines(plan) + text;
  if (!plan.cap_arithmetic.empty()) text += plan.cap_arithmetic + '\n';
  text += memory_lines(plan, config, limit, ranks_per_host);
  text += fmt::format("time:   {}, assuming a busbw of {:.0f} GB/s\n", duration_words(plan, config, assumed_busbw),
                      assumed_busbw / 1e9);
  return text;
}

}  // namespace busbar
