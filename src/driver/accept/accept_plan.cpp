#include "common/base/error.h"
#include "driver/accept/read_accept_plan.h"
#include "driver/compare/variants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace busbar {
namespace {

std::string text_of(const std::optional<Bound>& bound) {
  const auto number = [](const std::optional<double>& value) { return value ? fmt::format("{}", *value) : "-"; };
  return bound ? number(bound->warn) + "/" + number(bound->fail) : "none";
}

std::string text_of(const Criteria& c) {
  return fmt::format("busbw {} {} ceiling {} of {} latency {} wrong {} spreads {} {} {} {} {} counters {}",
                     text_of(c.busbw), c.busbw_expected, text_of(c.of_ceiling), c.ceiling_busbw, text_of(c.latency),
                     c.wrong, text_of(c.time_spread), text_of(c.dips), text_of(c.drift), text_of(c.host_spread),
                     text_of(c.rank_spread), c.counters);
}

/// Everything that a cell may set.
std::string text_of(const Config& c) {
  std::vector<int> ops, dtypes;
  for (Op op : c.ops) ops.push_back(static_cast<int>(op));
  for (DType dtype : c.dtypes) dtypes.push_back(static_cast<int>(dtype));
  return fmt::format(
      "{} {} {} {} {} op {} dtype {} root {} {} placement {} check {} warmup {} unalign {} register {} "
      "timeout {} stat {} {} {} {} {}",
      c.minbytes, c.maxbytes, c.stepbytes, c.stepfactor, c.sizes, ops, dtypes, c.root, c.all_roots,
      static_cast<int>(c.placement), c.check, c.warmup_iters, c.unalign, c.local_register, c.timeout_s, c.rel_ci,
      c.min_time_s, c.max_time_s, c.cell_time_s, c.epochs);
}

std::vector<std::string> names(const std::vector<Stage>& stages) {
  std::vector<std::string> list;
  for (Stage stage : stages) list.emplace_back(name(stage));
  return list;
}

std::string text_of(const PlanCell& cell) {
  return fmt::format("cell {} {} memory {} stages {} {} env {} {}", cell.name, cell.collective->name,
                     static_cast<int>(cell.memory), names(cell.stages), text_of(cell.config), cell.environment,
                     text_of(cell.criteria));
}

/// FNV-1a, as the plan digest of the benchmarks: the same on every machine.
std::uint64_t fnv1a(std::uint64_t hash, std::string_view text) {
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

}  // namespace

std::string why_not_here(const PlanCell& cell, const BackendTraits& backend) {
  const bool on_gpus = backend.memory == MemoryKind::gpu;
  if (cell.memory == CellMemory::gpu && !on_gpus) return "for GPUs (memory: gpu), and this is host memory";
  if (cell.memory == CellMemory::host && on_gpus) return "for host memory (memory: host), and these are GPUs";
  return {};
}

std::uint64_t digest_of(const AcceptPlan& plan) {
  std::uint64_t hash = 0xcbf29ce484222325;
  hash = fnv1a(
      hash, fmt::format("{} {} {} {} stages {} {} {} {}", plan.platform, plan.baseline, text_of(plan.baseline_margin),
                        plan.needs_gpus, names(plan.stages), plan.max_time_s, plan.repeat_for_s, plan.locate_on_fail));
  for (const PlanCell& cell : plan.cells) hash = fnv1a(hash, text_of(cell));
  return hash;
}

void check_environment_needs(const AcceptPlan& plan, bool has_launch) {
  if (has_launch) return;
  for (const PlanCell& cell : plan.cells) {
    for (const auto& [name, value] : cell.environment) {
      if (rereads_per_communicator(name)) continue;
      const std::string_view other = setting_in_one_job(name);
      throw Error(
          ExitCode::bad_config,
          fmt::format("{}:{}: cell {}: env: {} is read once per process, so a job cannot set it for one cell: "
                      "run with --launch \"mpirun -n {{ranks}} {{cmd}}\"{}; one job can set: {}",
                      plan.file, cell.line, cell.name, name, other.empty() ? "" : fmt::format(", or set {}", other),
                      fmt::join(settings_of_communicators(), " ")));
    }
  }
}

}  // namespace busbar
