#include "common/job/session_job.h"

#include "common/base/read_file.h"
#include "common/job/watch_session.h"
#include "common/mpi/collectively.h"
#include "common/mpi/session.h"
#include "common/watch/hang_json.h"

#include <fmt/format.h>

#include <cstdio>

namespace busbar {
namespace {

void say(const std::string& text) {
  fmt::print(stderr, "busbar: {}\n", text);
  std::fflush(stderr);
}

}  // namespace

std::optional<int> help_or_version(const Launch& launch, CommandLine::Action action,
                                   const std::function<std::string()>& help) {
  if (action == CommandLine::Action::run) return std::nullopt;
  if (launch.rank <= 0) {
    fmt::print("{}", action == CommandLine::Action::help ? help() : fmt::format("busbar {}\n", BUSBAR_VERSION));
  }
  return code_of(ExitCode::good);
}

int run_session(int argc, char** argv, const Launch& launch, double timeout_s, const JobWork& work) {
  const std::string oversubscribed = repair_oversubscription(launch);
  // Outlives the session: finalizing can hang as well as starting.
  Watchdog watchdog(timeout_s, watched_owner(launch, argc, argv), hang_json);
  watchdog.begin(Phase::mpi_init, "MPI_Init");
  Session session(&argc, &argv);
  const Comm& world = session.world();
  watchdog.begin(Phase::initialization, "connecting the watchers");
  Job job(world, oversubscribed, watchdog);
  const auto finish = [&](ExitCode code) {
    watchdog.begin(Phase::mpi_finalize, "MPI_Finalize");
    return code_of(code);
  };
  try {
    connect_watchers(world, watchdog);
    if (world.rank() == 0) {
      const std::string warning = separate_worlds_warning(launch, world.size());
      if (!warning.empty()) say("warning: " + warning);
    }
    return finish(work(job));
  } catch (const AgreedError& e) {
    if (world.rank() == 0) say(fmt::format("error: {}", e.what()));
    return finish(e.code());
  } catch (const std::exception& e) {
    const Error* known = dynamic_cast<const Error*>(&e);
    say(fmt::format("error: rank {} on {}, {}: {}", world.rank(), hostname(), job.step(), e.what()));
    watchdog.failing();
    abort_job(known != nullptr ? known->code() : ExitCode::internal);
  }
}

double command_line_timeout_s(const CommandLine& line) {
  Config config;
  for (const Setting& setting : line.settings) {
    if (setting.option->long_name == "timeout") setting.option->set(config, setting.text);
  }
  return config.timeout_s;
}

std::optional<ConfigFile> read_config_file(const std::string& path) {
  if (path.empty()) return std::nullopt;
  return ConfigFile{path, read_file(path, "the --config file")};
}

std::optional<ConfigFile> agree_on_config_file(const Comm& world, const std::string& path) {
  if (path.empty()) return std::nullopt;
  std::optional<ConfigFile> file = ConfigFile{path, {}};
  on_process0(world, [&] { file = read_config_file(path); });
  file->text = world.broadcast(file->text, 0);
  return file;
}

}  // namespace busbar
