#include "tools/perf.h"

#include "common/backends/open_backend.h"
#include "common/base/options.h"
#include "common/cluster/collectively.h"
#include "common/cluster/launcher.h"
#include "common/cluster/session.h"
#include "common/measure/runner.h"
#include "tools/perf_job.h"
#include "tools/perf_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace busbar {
namespace {

int code_of(ExitCode code) { return static_cast<int>(code); }

void say(const std::string& text) {
  fmt::print(stderr, "busbar: {}\n", text);
  std::fflush(stderr);
}

ConfigFile read_config_file(const std::string& path) { return {path, read_file(path, "the --config file")}; }

/// The whole configuration; the file is read by process 0 alone, so that a bad one fails alike everywhere.
Configured agree_on_config(const Comm& world, const CommandLine& line) {
  std::optional<ConfigFile> file;
  if (!line.config_file.empty()) {
    file = ConfigFile{line.config_file, {}};
    on_process0(world, [&] { file = read_config_file(line.config_file); });
    file->text = world.broadcast(file->text, 0);
  }
  Configured configured;
  collectively(world, "reading the options", [&] { configured = configure(line, file, ::getenv); });
  return configured;
}

/// Without a launcher, `-g 4` on host memory means four ranks: become mpirun. Returns where that is not so.
void relaunch_if_alone(const Launch& launch, const CommandLine& line, int argc, char** argv) {
  if (launch.launched()) return;
  std::optional<ConfigFile> file;
  if (!line.config_file.empty()) file = read_config_file(line.config_file);
  const Config config = configure(line, file, ::getenv).config;
  const int nranks = config.nthreads * config.ngpus;
  if (nranks > 1 && runs_on_host_memory(config)) relaunch_under_mpirun(nranks, argc, argv);
}

/// -T as the command line has it: MPI itself must come up within it, before a --config can be read.
double command_line_timeout_s(const CommandLine& line) {
  Config config;
  for (const Setting& setting : line.settings) {
    if (setting.option->long_name == "timeout") setting.option->set(config, setting.text);
  }
  return config.timeout_s;
}

int run_job(int argc, char** argv, const Collective& collective, const CommandLine& line, const Launch& launch,
            const WrapBackend& wrap) {
  const std::string oversubscribed = repair_oversubscription(launch);
  // Outlives the session: finalizing can hang as well as starting.
  Watchdog watchdog(command_line_timeout_s(line), std::max(launch.rank, 0), hostname());
  watchdog.begin("MPI_Init");
  Session session(&argc, &argv);
  watchdog.rest();
  const Comm& world = session.world();
  std::string step = "starting";
  const auto finish = [&](ExitCode code) {
    watchdog.begin("MPI_Finalize");
    return code_of(code);
  };
  try {
    if (world.rank() == 0) {
      const std::string warning = separate_worlds_warning(launch, world.size());
      if (!warning.empty()) say("warning: " + warning);
    }
    const Configured configured = agree_on_config(world, line);
    return finish(run_perf_job({argv, static_cast<std::size_t>(argc)}, collective, configured, oversubscribed, world,
                               wrap, step));
  } catch (const AgreedError& e) {
    if (world.rank() == 0) say(fmt::format("error: {}", e.what()));
    return finish(e.code());
  } catch (const std::exception& e) {
    const Error* known = dynamic_cast<const Error*>(&e);
    say(fmt::format("error: rank {} on {}, {}: {}", world.rank(), hostname(), step, e.what()));
    abort_job(known != nullptr ? known->code() : ExitCode::internal);
  }
}

}  // namespace

int run_perf(int argc, char** argv, std::string_view collective_name, const WrapBackend& wrap) {
  const Launch launch = detect_launch();
  // Before MPI is up the launcher's rank tells who speaks; what all ranks find alike is said once.
  const bool speaks = launch.rank <= 0;
  try {
    const CommandLine line = scan_arguments(argc, argv);
    if (line.action == CommandLine::Action::help) {
      if (speaks) fmt::print("{}", help_text(fmt::format("{}_perf", collective_name)));
      return code_of(ExitCode::good);
    }
    if (line.action == CommandLine::Action::version) {
      if (speaks) fmt::print("busbar {}\n", BUSBAR_VERSION);
      return code_of(ExitCode::good);
    }
    relaunch_if_alone(launch, line, argc, argv);
    return run_job(argc, argv, *find_collective(collective_name), line, launch, wrap);
  } catch (const Error& e) {
    // The silent ranks leave with 0: a launcher ends the job at the first failure, which must not come before the
    // message.
    if (!speaks) return code_of(ExitCode::good);
    say(fmt::format("error: {}", e.what()));
    return code_of(e.code());
  } catch (const std::exception& e) {
    say(fmt::format("error: {}", e.what()));
    return code_of(ExitCode::internal);
  }
}

}  // namespace busbar
