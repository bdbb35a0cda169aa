#include "driver/accept/accept_steps.h"

#include "common/base/error.h"
#include "common/base/units.h"
#include "common/measure/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace busbar {
namespace {

constexpr double kDoctor = 3;      // [s]
constexpr double kPairs = 15;      // [s] of seven rounds at 2 s (acceptance.md 4.4)
constexpr double kLaunchCost = 2;  // [s]

const PlanCell& cell_of(const AcceptPlan& plan, const AcceptStep& step) {
  return plan.cells.at(static_cast<std::size_t>(step.cell));
}

bool has_stage(const PlanCell& cell, Stage stage) {
  return std::find(cell.stages.begin(), cell.stages.end(), stage) != cell.stages.end();
}

/// Collectives' rows and placements of a cell.
std::size_t halves_of(const PlanCell& cell) {
  const Config& c = cell.config;
  const std::size_t ops = cell.collective->has_op ? c.ops.size() : 1;
  const std::size_t placements = c.placement == Placements::both ? 2 : 1;
  return sweep_sizes(c, c.maxbytes).size() * c.dtypes.size() * ops * placements;
}

std::string settings_text(const std::vector<std::pair<std::string, std::string>>& settings) {
  std::vector<std::string> words;
  for (const auto& [name, value] : settings) words.push_back(name + "=" + value);
  return fmt::format("{}", fmt::join(words, " "));
}

std::string describe(const AcceptPlan& plan, const AcceptStep& step) {
  if (step.cell < 0) {
    return step.stage == Stage::doctor ? "every node looked at" : "hosts two by two, all pairs of a round at once";
  }
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
  if (!cell.environment.empty()) text += "; " + settings_text(cell.environment);
  return text;
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
      if (!has_stage(plan.cells[i], stage)) continue;
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
  throw Error(ExitCode::bad_config, fmt::format("the plan has no step {}", in_quotes(id)));
}

double estimate_step_s(const AcceptPlan& plan, const AcceptStep& step) {
  if (step.stage == Stage::doctor) return kDoctor;
  if (step.cell < 0) return kPairs;
  const PlanCell& cell = cell_of(plan, step);
  // Ten epochs and more of 10 ms each, warm-up and checks, as the statistical mode takes them.
  constexpr double kHalf = 0.5;
  return std::min(kHalf * static_cast<double>(halves_of(cell)), cell.config.max_time_s) + 1;
}

std::vector<AcceptPart> parts_of(const AcceptPlan& plan, const std::vector<AcceptStep>& steps) {
  std::vector<AcceptPart> parts;
  for (const AcceptStep& step : steps) {
    const auto environment =
        step.cell < 0 ? std::vector<std::pair<std::string, std::string>>{} : cell_of(plan, step).environment;
    const bool same = !parts.empty() && parts.back().stage == step.stage && parts.back().environment == environment;
    if (!same) parts.push_back({step.stage, {}, environment});
    parts.back().steps.push_back(step);
  }
  return parts;
}

std::string out_of_time_remark(const AcceptPlan& plan, const std::vector<AcceptStep>& late) {
  std::vector<std::string> ids;
  for (const AcceptStep& step : late) ids.push_back(step.id);
  return fmt::format("max-time {} was over before {}: raise it, or ask for fewer sizes",
                     format_duration(plan.max_time_s), fmt::join(ids, ", "));
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
    text += fmt::format("# about {} once, again and again for {}\n", format_duration(total_s),
                        format_duration(plan.repeat_for_s));
  } else {
    text += fmt::format("# {} step{}{}, about {}{}\n", steps.size(), steps.size() == 1 ? "" : "s",
                        launches ? fmt::format(" in {} launches", parts.size()) : "", format_duration(total_s),
                        plan.max_time_s > 0 ? fmt::format(", at most {}", format_duration(plan.max_time_s)) : "");
  }
  return text;
}

}  // namespace busbar
