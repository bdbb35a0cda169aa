#include "programs/perf/perf.h"

#include "common/backends/open_backend.h"
#include "common/base/options.h"
#include "common/job/before_session.h"
#include "common/job/session_job.h"
#include "common/mpi/collectively.h"
#include "programs/perf/perf_job.h"

#include <fmt/format.h>

#include <cstdlib>

namespace busbar {
namespace {

/// Without a launcher, `-g 4` on host memory means four ranks: become mpirun. Returns where that is not so.
void relaunch_if_alone(const Launch& launch, const CommandLine& line, int argc, char** argv) {
  if (launch.launched()) return;
  const Config config = configure(line, read_config_file(line.config_file), ::getenv).config;
  const int nranks = config.nthreads * config.ngpus;
  if (nranks > 1 && runs_on_host_memory(config)) relaunch_under_mpirun(nranks, argc, argv);
}

int run(const Launch& launch, int argc, char** argv, std::string_view collective_name, const WrapBackend& wrap) {
  const CommandLine line = scan_arguments(argc, argv);
  const auto help = [&] { return help_text(fmt::format("{}_perf", collective_name)); };
  if (const auto code = help_or_version(launch, line.action, help)) return *code;
  relaunch_if_alone(launch, line, argc, argv);
  const auto work = [&](Job& job) {
    const std::optional<ConfigFile> file = agree_on_config_file(job.world(), line.config_file);
    Configured configured;
    collectively(job.world(), "reading the options", [&] { configured = configure(line, file, ::getenv); });
    return run_perf_job({argv, static_cast<std::size_t>(argc)}, *find_collective(collective_name), configured.config,
                        wrap, job);
  };
  return run_session(argc, argv, launch, command_line_timeout_s(line), work);
}

}  // namespace

int run_perf(int argc, char** argv, std::string_view collective_name, const WrapBackend& wrap) {
  const Launch launch = detect_launch();
  return run_before_session(launch, [&] { return run(launch, argc, argv, collective_name, wrap); });
}

}  // namespace busbar
