#include "common/base/units.h"
#include "common/measure/lanes.h"
#include "common/measure/runner.h"
#include "common/measure/verify.h"
#include "common/processes/gather_records.h"

#include <fmt/format.h>

#include <algorithm>

namespace busbar {

void check_half(Backend& backend, const Comm& world, const Config& config, Verifier& verifier,
                const BufferPlan& buffer_plan, const FailJob& fail, HalfResult& half, Row& row) {
  if (!buffer_plan.operation().collective->moves_data || !backend.defines_result(buffer_plan.operation())) return;
  half.timed_verified = is_idempotent(backend, buffer_plan.operation());
  half.wrong = 0;
  for (int round = half.timed_verified ? -1 : 0; round < config.check; ++round) {
    std::vector<WrongRank> mine =
        round < 0 ? verifier.check_timed(buffer_plan) : verifier.verify_once(buffer_plan, config.cudagraph > 0, fail);
    if (!config.split.empty()) {
      // The diagnosis knows the communicator's ranks only; elsewhere ranks are counted over the whole job.
      for (WrongRank& record : mine) record.explanation += " (as its group counts ranks)";
    }
    half.wrong = world.sum(static_cast<std::int64_t>(count_wrong(mine)));
    if (*half.wrong == 0) continue;
    for (WrongRank& record : gather_wrong(world, mine)) row.wrong.push_back(std::move(record));
    return;
  }
}

void visit_fields(auto&& visit, KernelPhases& p) {
  visit("rank", p.rank);
  visit("initial_sync_s", p.initial_sync_s);
  visit("compute_s", p.compute_s);
  visit("final_sync_s", p.final_sync_s);
}

ShownAlgorithm observe_operation(Backend& backend, const Comm& world, std::span<const RankInfo> local_ranks,
                                 const BufferPlan& buffer_plan, const FailJob& fail) {
  backend.observe_begin();
  run_on_lanes(
      backend,
      [&](int lane) {
        backend.launch(lane, buffer_plan.operation(), buffer_plan.lane_buffers(0, lane));
        backend.synchronize(lane);
      },
      fail);
  ShownAlgorithm shown = backend.observe_end(buffer_plan.operation());
  const std::span<const int> ranks = backend.local_ranks();
  for (KernelPhases& phases : shown.phases) {
    phases.rank = local_ranks[static_cast<std::size_t>(std::ranges::find(ranks, phases.rank) - ranks.begin())].rank;
  }
  shown.phases = gather_records(world, std::move(shown.phases));
  return shown;
}

void set_bandwidths(const Collective& collective, const Problem& problem, double time_s, HalfResult& half) {
  half.algbw = time_s > 0 ? collective.algorithm_bytes(problem) / time_s / 1e9 : 0;
  half.busbw = half.algbw * collective.bus_factor(problem.nranks);
}

std::string row_note(const Backend& backend, const Plan& plan, const Case& c, Placements placement) {
  const Collective& collective = *plan.collective;
  if (placement == Placements::both && !plan.why_out_alone.empty()) return "out of place alone: " + plan.why_out_alone;
  for (const bool in_place : {false, true}) {
    const Placements other = in_place ? Placements::out : Placements::in;
    if (placement == other || (in_place && !has_in_place(plan))) continue;
    if (auto note = backend.note({&collective, c.problem, c.dtype, c.op, in_place})) return *note;
  }
  const bool is_round = collective.id == CollectiveId::pingpong && c.root != kHalves;
  return is_round ? "pairs " + pingpong_pairs(c.problem) : "";
}

std::string describe(const Collective& collective, const Case& c) {
  if (!collective.moves_data) return std::string(collective.name);
  std::string text = fmt::format("{} of {} {}", collective.name, format_bytes(c.nbytes), name(c.dtype));
  if (c.op) text += fmt::format(" {}", name(*c.op));
  return text + root_words(collective, c.root);
}

}  // namespace busbar
