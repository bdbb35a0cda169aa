// What the launches of `busbar fingerprint` run.

#include "common/backends/mpi/mpi_backend.h"
#include "common/backends/mpi/ompi_tuned.h"
#include "common/job/session_job.h"
#include "common/measure/arena.h"
#include "common/measure/workload.h"
#include "common/mpi/collectively.h"
#include "common/mpi/session.h"
#include "driver/fingerprint/fingerprint_run.h"

#include <fmt/format.h>

#include <cstdio>

namespace busbar {
namespace {

/// The same on all ranks.
void refuse_unsupported(const Backend& backend, const FingerprintCase& c) {
  const Operation op{c.collective, problem_of(c, backend.nranks()), c.dtype, c.op, false};
  std::string why = backend.why_unsupported(op).value_or("");
  if (why.empty() && c.collective->why_not != nullptr) why = c.collective->why_not(op.problem);
  if (why.empty() && c.collective->has_root && c.root >= backend.nranks()) {
    why = fmt::format("root {} is none of {} ranks", c.root, backend.nranks());
  }
  if (!why.empty()) throw Error(ExitCode::not_possible, why);
}

ExitCode probe(Job& job, const FingerprintCase& c, const OmpiChoice& forced, int calls) {
  const Comm& world = job.world();
  job.set_step("making the communicator");
  std::unique_ptr<Backend> backend;
  collectively(world, job.step(), [&] {
    std::vector<std::pair<std::string, std::string>> settings;
    if (forced.algorithm != 0) settings.emplace_back("ompi.algorithm", std::to_string(forced.algorithm));
    if (forced.segment_bytes != 0) settings.emplace_back("ompi.segmentsize", std::to_string(forced.segment_bytes));
    // The settings are checked before anything is sent, so that they fail alike on all or on none.
    const TunedSettings settled(*c.collective, settings, world.size());
    backend = make_mpi_backend(world, world.size());
    refuse_unsupported(*backend, c);
  });
  Case row{c.dtype, c.op, c.root, c.nbytes, problem_of(c, world.size()), 0};
  row.nbytes = message_bytes(*c.collective, row.problem);
  const Arena arena(*backend, row.nbytes, 0);
  const Workload workload(*backend, arena, *c.collective, row, false, 0, 1);
  job.set_step("calling");
  for (int i = 0; i < calls; ++i) {
    backend->enqueue(0, workload.operation(), workload.lane_buffers(0, 0));
    backend->synchronize(0);
  }
  if (world.rank() == 0) {
    fmt::print("busbar-probe {} {} {} {}\n", world.size(), hostname(),
               backend->observe_end(workload.operation()).algorithm, mpi_library_version());
    std::fflush(stdout);
  }
  return ExitCode::good;
}

}  // namespace

int run_fingerprint_probe(int argc, char** argv, const FingerprintCase& c, const std::optional<OmpiChoice>& forced,
                          int calls) {
  if (forced) prepare_ompi_variation();
  return run_session(argc, argv, detect_launch(), 0, [&](Job& job) {
    job.watchdog().rest();  // whoever launched the probe has a limit for it
    return probe(job, c, forced.value_or(OmpiChoice{}), calls);
  });
}

}  // namespace busbar
