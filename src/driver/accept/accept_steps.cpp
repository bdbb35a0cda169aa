#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/measure/plan.h"
#include "common/statistics/stop_rule.h"
#include "driver/accept/accept_engine.h"
#include "driver/compare/launch_rounds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace busbar {
namespace {

constexpr double kDoctor = 3;      // [s]
constexpr double kPairs = 15;      // [s] of seven rounds at 2 s (acceptance.md 4.4)
constexpr double kLaunchCost = 2;  // [s]

const PlanCell& cell_of(const AcceptPlan& plan, const AcceptStep& step) {
  return plan.cells.at(static_cast<std::size_t>(step.cell));
}

std::string describe(const AcceptPlan& plan, const AcceptStep& step) {
  if (step.cell < 0)
    return step.stage == Stage::doctor ? "every node checked" : "hosts two by two, all pairs of a round at once";
  const PlanCell& cell = cell_of(plan, step);
  const std::vector<std::uint64_t> sizes = sweep_sizes(cell.config, cell.config.maxbytes);
  std::string text = fmt::format("{} {}", cell.collective->name,
                                 sizes.size() == 1 ? format_bytes(sizes.front())
                                                   : fmt::format("{} .. {} ({} sizes)", format_bytes(sizes.front()),
                                                                 format_bytes(sizes.back()), sizes.size()));
  for (const DType dtype : cell.config.dtypes) text += fmt::format(" {}", name(dtype));
  if (cell.collective->has_op) {
    for (const Op op : cell.config.ops) text += fmt::format(" {}", name(op));
  }
  const auto settings = mapped(cell.environment, [](const auto& s) { return s.first + "=" + s.second; });
  return settings.empty() ? text : text + "; " + joined_words(settings);
}

constexpr std::string_view kMaxTimeOver = "max-time";

template <class T>
void append(std::vector<T>& to, std::vector<T>& from) {
  std::ranges::move(from, std::back_inserter(to));
}

/// Drops what unfinished steps left: they are measured again.
void drop_unfinished(AcceptResult& result) {
  const auto is_done = [&](Stage stage, const std::string& cell) {
    return contains(result.done, fmt::format("{}/{}", name(stage), cell));
  };
  std::erase_if(result.cells, [&](const Cell& m) { return !is_done(*m.stage, m.cell); });
  std::erase_if(result.skipped, [&](const SkippedCell& s) { return !is_done(s.stage, s.cell); });
}

Outcome outcome_of(const AcceptResult::Located& look) {
  Outcome outcome = look.finding.outcome;
  for (const auto& slow : look.slow_ranks) outcome = worse(outcome, slow.outcome);
  return outcome;
}

/// A look that could not decide says less than one that found nothing.
int weight(Outcome outcome) { return outcome == Outcome::inconclusive ? 1 : 2 * static_cast<int>(outcome); }

/// Units are indices: they mean the same only among the same units.
void add_culprits(AcceptResult::Located& to, const AcceptResult::Located& from) {
  for (const auto& slow : from.slow_ranks) {
    const auto same = [&](const auto& known) { return known.rank == slow.rank; };
    if (std::ranges::none_of(to.slow_ranks, same)) to.slow_ranks.push_back(slow);
  }
  if (to.units != from.units) return;
  std::vector<Culprit>& all = to.finding.culprits;
  for (const Culprit& culprit : from.finding.culprits) {
    const auto same = [&](const Culprit& known) { return known.what == culprit.what && known.units == culprit.units; };
    if (std::ranges::none_of(all, same)) all.push_back(culprit);
  }
}

}  // namespace

std::vector<AcceptStep> steps_of(const AcceptPlan& plan) {
  std::vector<AcceptStep> steps;
  for (const Stage stage : plan.stages) {
    if (stage == Stage::doctor || stage == Stage::pairs) {
      steps.push_back({stage, -1, name(stage)});
      continue;
    }
    for (std::size_t i = 0; i < plan.cells.size(); ++i) {
      if (!contains(plan.cells[i].stages, stage)) continue;
      steps.push_back({stage, static_cast<int>(i), fmt::format("{}/{}", name(stage), plan.cells[i].name)});
    }
  }
  return steps;
}

AcceptStep find_step(const AcceptPlan& plan, const std::string& id) {
  for (AcceptStep& step : steps_of(plan)) {
    if (step.id == id) return std::move(step);
  }
  if (id == name(Stage::pairs)) return {Stage::pairs, -1, id};
  throw_bad_config(fmt::format("the plan has no step {}", in_quotes(id)));
}

double estimate_step_s(const AcceptPlan& plan, const AcceptStep& step) {
  if (step.stage == Stage::doctor) return kDoctor;
  if (step.cell < 0) return kPairs;
  const PlanCell& cell = cell_of(plan, step);
  // If the machine drifts, as most do, a cell ends by its own limits: cell-time, or its epochs of some 10 ms.
  constexpr double kEpoch = 10.5e-3;
  const double half_s = std::min(cell.config.cell_time_s, kEpoch * cell.config.epochs);
  const auto in_turn = static_cast<double>(
      std::ranges::count_if(plan.cells, [&](const PlanCell& c) { return contains(c.stages, step.stage); }));
  const std::size_t halves = cell.config.placement == Placements::both ? 2 : 1;
  const auto rows = static_cast<double>(planned_cells(cell.config, *cell.collective) * halves);
  const double measured_s = std::max(half_s * rows, kLeastSpan / in_turn);
  return std::min(measured_s, cell.config.max_time_s) + 1;
}

double share_of(double left_s, const AcceptPlan& plan, std::span<const AcceptStep> pending, std::size_t own) {
  const auto needed_s = [&](std::span<const AcceptStep> steps) {
    double sum_s = 0;
    for (const AcceptStep& step : steps) sum_s += estimate_step_s(plan, step);
    return sum_s;
  };
  const double mine_s = needed_s(pending.first(own)), later_s = needed_s(pending.subspan(own));
  return std::max(left_s - later_s, left_s * mine_s / (mine_s + later_s));
}

std::vector<AcceptPart> parts_of(const AcceptPlan& plan, const std::vector<AcceptStep>& steps) {
  std::vector<AcceptPart> parts;
  for (const AcceptStep& step : steps) {
    const auto environment = step.cell < 0 ? EnvironmentSettings{} : cell_of(plan, step).environment;
    const bool same = !parts.empty() && parts.back().stage == step.stage && parts.back().environment == environment;
    if (!same) parts.push_back({step.stage, {}, environment});
    parts.back().steps.push_back(step);
  }
  return parts;
}

std::string out_of_time_remark(const AcceptPlan& plan, const std::vector<AcceptStep>& late) {
  return fmt::format("{} {} was over before {}: raise it, or measure fewer sizes", kMaxTimeOver,
                     format_duration(plan.max_time_s), fmt::join(mapped(late, &AcceptStep::id), ", "));
}

std::string looks_allowance(const AcceptPlan& plan) {
  const bool has_pairs = contains(plan.stages, Stage::pairs) || plan.locate_on_fail;
  if (!has_pairs || plan.locate_looks_s <= 0) return "";
  return fmt::format(", and up to {} more if a host looks slow", format_duration(plan.locate_looks_s));
}

std::string accept_dry_run(const AcceptPlan& plan, bool launches) {
  const std::vector<AcceptStep> steps = steps_of(plan);
  const std::vector<AcceptPart> parts = parts_of(plan, steps);
  std::string text = fmt::format("# {}: {}\n", plan.file, plan.title.empty() ? "acceptance" : plan.title);
  text += fmt::format("# expects: platform {}{}{}\n", plan.platform.empty() ? "none" : plan.platform,
                      plan.baseline.empty() ? "" : ", baseline " + plan.baseline, plan.needs_gpus ? ", GPUs" : "");
  double total_s = 0;
  std::size_t width = 0;
  for (const AcceptStep& step : steps) width = std::max(width, step.id.size());
  for (const AcceptStep& step : steps) {
    const double time_s = estimate_step_s(plan, step);
    total_s += time_s;
    text += fmt::format("  {:<{}}  {:>6}  {}\n", step.id, width, format_duration(time_s), describe(plan, step));
  }
  if (launches) total_s += kLaunchCost * static_cast<double>(parts.size());
  if (plan.repeat_for_s > 0) {
    text +=
        fmt::format("# about {} once, repeated for {}\n", format_duration(total_s), format_duration(plan.repeat_for_s));
  } else {
    text += fmt::format("# {}{}, about {}{}{}\n", counted(steps.size(), "step"),
                        launches ? fmt::format(" in {} launches", parts.size()) : "", format_duration(total_s),
                        plan.max_time_s > 0 ? fmt::format(", at most {}", format_duration(plan.max_time_s)) : "",
                        looks_allowance(plan));
  }
  return text;
}

void add_located(AcceptResult& result, AcceptResult::Located look) {
  const Outcome outcome = outcome_of(look);
  if (look.looks == 0) {
    look.looks = 1;
    look.failed = outcome == Outcome::fail ? 1 : 0;
    look.unclear = outcome == Outcome::inconclusive ? 1 : 0;
  }
  if (!result.located) {
    result.located = std::move(look);
    return;
  }
  AcceptResult::Located& kept = *result.located;
  look.looks += kept.looks;
  look.failed += kept.failed;
  look.unclear += kept.unclear;
  look.later_s += kept.later_s;
  const Outcome before = outcome_of(kept);
  const bool both_failed = before == Outcome::fail && outcome == Outcome::fail;
  if (weight(outcome) > weight(before)) std::swap(kept, look);
  if (both_failed) add_culprits(kept, look);
  kept.looks = std::max(kept.looks, look.looks);
  kept.failed = std::max(kept.failed, look.failed);
  kept.unclear = std::max(kept.unclear, look.unclear);
  kept.later_s = std::max(kept.later_s, look.later_s);
}

int last_repetition(const AcceptResult& result) {
  int last = 0;
  for (const Cell& m : result.cells) last = std::max(last, m.repetition);
  return last;
}

bool is_measured(const AcceptResult& result, const AcceptStep& step, int repetition) {
  if (repetition == 0) return contains(result.done, step.id);
  if (step.cell < 0) return false;
  const std::string& name = result.plan.cells.at(static_cast<std::size_t>(step.cell)).name;
  return std::ranges::any_of(result.cells, [&](const Cell& m) {
    return m.repetition == repetition && m.stage == step.stage && m.cell == name;
  });
}

void take_over(AcceptResult& result, AcceptResult earlier) {
  drop_unfinished(earlier);
  result.start_time = earlier.start_time;
  result.elapsed_s = earlier.elapsed_s;
  result.excluded_hosts = std::move(earlier.excluded_hosts);
  result.doctor = std::move(earlier.doctor);
  result.inits.insert(result.inits.begin(), earlier.inits.begin(), earlier.inits.end());
  result.counters = std::move(earlier.counters);
  result.cells = std::move(earlier.cells);
  result.skipped = std::move(earlier.skipped);
  result.located = std::move(earlier.located);
  result.failures = std::move(earlier.failures);
  result.done = std::move(earlier.done);
  if (result.hosts.empty()) result.hosts = std::move(earlier.hosts);
  // A resumed run starts no launch again for what is done: what the launches said is in the earlier result alone.
  const auto keep = [](std::string& now, std::string& before) {
    if (now.empty()) now = std::move(before);
  };
  keep(result.backend, earlier.backend);
  keep(result.library, earlier.library);
  keep(result.network, earlier.network);
  result.counters_read = result.counters_read || earlier.counters_read;
  for (const std::string& remark : earlier.remarks) {
    if (!remark.starts_with(kMaxTimeOver)) add_once(result.remarks, remark);
  }
  add_once(result.remarks, "resumed: the steps before were measured in an earlier run");
}

void add_part(AcceptResult& whole, AcceptResult part) {
  drop_unfinished(part);
  if (whole.backend.empty()) {
    whole.backend = part.backend;
    whole.library = part.library;
  }
  if (whole.network.empty()) whole.network = part.network;
  for (AcceptResult::Host& host : part.hosts) {
    const bool known =
        std::ranges::any_of(whole.hosts, [&](const AcceptResult::Host& h) { return h.name == host.name; });
    if (!known) whole.hosts.push_back(std::move(host));
  }
  for (const std::string& remark : part.remarks) add_once(whole.remarks, remark);
  append(whole.inits, part.inits);
  if (!part.doctor.empty()) whole.doctor = std::move(part.doctor);
  append(whole.counters, part.counters);
  whole.counters_read = whole.counters_read || part.counters_read;
  // Of cells that were measured twice, because a launch was cut short after them, the later one counts.
  for (Cell& m : part.cells) {
    std::erase_if(whole.cells, [&](const Cell& old) { return same_cell(old, m) && old.repetition == m.repetition; });
    whole.cells.push_back(std::move(m));
  }
  append(whole.skipped, part.skipped);
  if (part.located) add_located(whole, std::move(*part.located));
  for (const std::string& id : part.done) add_once(whole.done, id);
}

}  // namespace busbar
