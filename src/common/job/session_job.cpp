#include "common/job/session_job.h"

#include "common/backends/open_backend.h"
#include "common/base/error.h"
#include "common/base/packed_fields.h"
#include "common/base/random_source.h"
#include "common/base/read_file.h"
#include "common/base/say.h"
#include "common/base/text.h"
#include "common/evidence/hang_evidence.h"
#include "common/machine/resources.h"
#include "common/processes/child.h"
#include "common/processes/comm.h"
#include "common/processes/launcher.h"
#include "common/processes/mpi/mpi_session.h"
#include "common/processes/session.h"
#include "common/watch/limits.h"
#include "common/watch/peer_address.h"
#include "common/watch/watchdog.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>

namespace busbar {

void visit_fields(auto&& visit, PeerAddress& a) { BUSBAR_FIELDS(visit, a, host, ip, port, full_name, machine); }

BUSBAR_RECORD(FailedConnection, from, to, why);

namespace {

// `busbar fingerprint` subtracts what a launch without calls sends from what one with calls sends. So whatever differs
// between launches must have the same number of bytes.
constexpr std::size_t kJobidBytes = 32;

std::string padded(std::string jobid) {
  jobid.resize(std::max(jobid.size(), kJobidBytes), ' ');
  return jobid;
}

std::string unpadded(std::string jobid) {
  jobid.erase(jobid.find_last_not_of(' ') + 1);
  return jobid;
}

/// What the launcher says about this process, before MPI does.
JobView launched_job(const Launch& launch) {
  JobView job;
  job.host = hostname();
  job.rank = std::max(launch.rank, 0);
  job.nprocs = launch.nprocs;
  job.local_size = launch.local_size;
  // Two jobs of one shell are not one job.
  if (launch.carrier == Carrier::sockets) job.jobid = fmt::format(".{}.{}", launch.master_port, launch.nprocs);
  return job;
}

std::string command_of(int argc, char** argv) {
  std::string command;
  for (int i = 0; i < argc; ++i)
    command += i == 0 ? std::filesystem::path(argv[i]).filename().string() : fmt::format(" {}", argv[i]);
  return command;
}

/// Whether this is the first process for which `it` is true. Collective.
bool is_first(const Comm& world, bool it) {
  const std::int64_t first = world.min(std::int64_t{it ? world.rank() : world.size()});
  return first == world.rank();
}

/// Gives every process's watcher the addresses of the others, and lets hosts try to connect; returns how many pairs
/// cannot. Collective.
std::size_t introduce(const Comm& world, Watchdog& watchdog, const std::string& jobid, const PeerAddress& own) {
  std::vector<PeerAddress> peers = share_records(world, std::vector<PeerAddress>{own});
  for (std::size_t i = 0; i < peers.size(); ++i) peers[i].rank = static_cast<int>(i);
  watchdog.connect(jobid, std::move(peers));
  std::vector<FailedConnection> failed = share_records(world, check_connectivity(watchdog.view()));
  const std::size_t pairs = failed.size();
  watchdog.set_failed_connections(std::move(failed));
  return pairs;
}

/// The other interfaces on which every process could listen, at most three, in process 0's order. Collective.
std::vector<std::string> common_interfaces(const Comm& world, const Watchdog& watchdog) {
  constexpr std::size_t kMost = 3;  // each can take seconds
  const std::vector<std::string> mine = watchdog.interfaces();
  std::map<std::string, int> have, use;
  for (const std::string& interface : share_records(world, mine)) ++have[interface];
  for (const std::string& interface : share_records(world, std::vector{watchdog.interface()})) ++use[interface];
  std::vector<std::string> common;
  for (const std::string& interface : share_records(world, world.rank() == 0 ? mine : std::vector<std::string>{})) {
    const bool is_other = use[interface] < world.size();
    if (is_other && have[interface] == world.size() && common.size() < kMost) common.push_back(interface);
  }
  return common;
}

/// Agrees on the job's name and a token and gives every process's watcher the addresses of the others. Collective.
void connect_watchers(const Comm& world, Watchdog& watchdog) {
  constexpr std::size_t kTellsApart = 12;
  const std::string own_name = watchdog.is_named() ? watchdog.jobid() : random_id().substr(0, kTellsApart);
  const std::string jobid = unpadded(world.broadcast(padded(own_name), 0));
  const std::string token = world.broadcast(world.rank() == 0 ? random_id() : "", 0);
  const bool one_host = on_one_host(world);
  const PeerAddress own = watchdog.listen(world.rank(), one_host, token, world.address());
  std::size_t failed = introduce(world, watchdog, jobid, own);
  if (const std::string& warning = watchdog.warning(); is_first(world, !warning.empty()))
    say("warning: {}: {}", hostname(), warning);
  if (failed == 0) return;
  // A rail without a connection, or a firewall on one network: the next network may work.
  std::string best;
  for (const std::string& interface : common_interfaces(world, watchdog)) {
    const std::size_t there = introduce(world, watchdog, jobid, watchdog.listen_on(interface));
    if (there >= failed) continue;
    best = interface;
    if ((failed = there) == 0) return;
  }
  (void)introduce(
      world, watchdog, jobid,
      best.empty() ? watchdog.listen(world.rank(), one_host, token, world.address()) : watchdog.listen_on(best));
}

/// For what every process of a host finds and none knows of another: the first says it, the others find its name taken.
void say_once_per_host(const Launch& launch, const std::string& text) {
  const std::string name = fmt::format("busbar.{}.{}.{}", getuid(), launch.master_port, launch.nprocs);
  sockaddr_un address{};  // in the abstract namespace: begins with a zero, and ends with the process
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const Socket word(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const bool has_it = bind(word.fd(), reinterpret_cast<const sockaddr*>(&address), length) == 0;
  if (!has_it && errno == EADDRINUSE) return;
  say("error: {}", text);
  constexpr std::chrono::seconds kForTheLast{1};  // they start and give up at about the same time
  if (has_it) std::this_thread::sleep_for(kForTheLast);
}

/// The processes meet here without MPI, or MPI starts. `session` is empty if they cannot; then returns the exit code.
ExitCode open_session(std::optional<Session>& session, int& argc, char**& argv, const Launch& launch,
                      const MpiStart& start, Watchdog& watchdog) {
  if (launch.carrier == Carrier::mpi) {
    watchdog.begin_step(Phase::mpi_init, "MPI_Init");
    session.emplace(&argc, &argv, start.threads);
    return ExitCode::good;
  }
  constexpr double kBeforeWatchdog = 5;  // [s] the reason is known here
  watchdog.begin_step(Phase::mpi_init, "meeting the other processes");
  const double limit_s = start_limit_s(launch.nprocs, start.timeout_s);
  MeetRequest request{launch, command_of(argc, argv), {}, limit_s > 0 ? limit_s - kBeforeWatchdog : 0};
  const auto on_end = [&watchdog](const JobEnd& end) {
    end.silent ? watchdog.peer_has_gone() : watchdog.leave_with(end.code);
  };
  try {
    if (!start.meet_key.empty()) request.key = trimmed(read_file(start.meet_key, "the --meet-key file"));
    if (!start.meet_key.empty() && request.key.empty()) throw_bad_config("the --meet-key file is empty");
    session.emplace(request, on_end);
    return ExitCode::good;
  } catch (const AgreedError& e) {
    if (launch.rank == 0) say("error: {}", e.what());
    return e.code();
  } catch (const Error& e) {
    // All of a host wait in vain, or have a wrong setting, for the same reason; what else goes wrong is this process
    // alone's.
    const std::string text = fmt::format("rank {} on {}: {}", launch.rank, hostname(), e.what());
    const bool is_shared = e.code() == ExitCode::timeout || e.code() == ExitCode::bad_config;
    is_shared ? say_once_per_host(launch, text) : say("error: {}", text);
    return e.code();
  }
}

/// What the header must say about too few cores, and about processes without MPI.
std::string crowd_of(int local_size) {
  const int cores = job_cores();
  if (local_size <= cores) return {};
  return fmt::format("{} on {}: they share them", counted(local_size, "rank"), counted(cores, "core"));
}

std::string carried_by(const Launch& launch, const Comm& world) {
  if (launch.carrier == Carrier::mpi) return {};
  if (world.size() == 1) return "1 process, no MPI";
  return fmt::format("{} processes over TCP ({}), no MPI", world.size(), short_name(launch.kind));
}

/// GPUs are dealt out by the place among the processes that share memory. Collective.
void warn_of_other_local_ranks(const Launch& launch, const Comm& world) {
  if (launch.carrier == Carrier::mpi) return;
  const int own = world.split_by_host().rank();
  if (!is_first(world, launch.local_rank >= 0 && launch.local_rank != own)) return;
  say("warning: rank {} on {} has local rank {} from its launcher, and is number {} of the processes that share its "
      "/dev/shm: by that number it takes its GPU",
      launch.rank, hostname(), launch.local_rank, own);
}

Config on_command_line(const CommandLine& line) {
  Config config;
  for (const Setting& setting : line.settings) setting.option->set(config, setting.text);
  return config;
}

/// Returns if this is no process alone that should be several.
void relaunch_if_alone(const Launch& launch, const CommandLine& line, int argc, char** argv) {
  if (launch.launched() || !launch.problem.empty() || (launch.carrier == Carrier::sockets && has_mpi())) return;
  const Config config = configure(line, read_config_file(line.config_file), ::getenv).config;
  const int nranks = config.nthreads * config.ngpus;
  if (nranks == 1 || !runs_on_host_memory(config)) return;
  if (!has_mpi()) start_own_ranks(nranks, argc, argv);
  relaunch_under_mpirun(nranks, mpi_library_version(), argc, argv);
}

}  // namespace

std::optional<int> help_or_version(const Launch& launch, CommandLine::Action action,
                                   const std::function<std::string()>& help) {
  if (action == CommandLine::Action::run) return std::nullopt;
  if (launch.rank <= 0)
    fmt::print("{}", action == CommandLine::Action::help ? help() : fmt::format("busbar {}\n", BUSBAR_VERSION));
  return code_of(ExitCode::good);
}

int run_session(int argc, char** argv, const Launch& launch, const MpiStart& start, const JobWork& work) {
  if (!launch.problem.empty()) {
    if (launch.rank <= 0) say_once_per_host(launch, launch.problem);
    return code_of(ExitCode::bad_config);
  }
  // If a host dies, the MPI of its neighbors writes to connections that nobody reads. They would die silently and be
  // blamed. A process without a launcher may end as any program of a pipeline does.
  if (launch.launched()) std::signal(SIGPIPE, SIG_IGN);
  const bool has_mpi = launch.carrier == Carrier::mpi;
  std::string oversubscribed = has_mpi ? repair_oversubscription(launch, mpi_library_version()) : "";
  if (has_mpi) (void)repair_reduce(mpi_library_version());
  // Outlives the session: finalizing can hang as well as starting.
  Watchdog watchdog(start.timeout_s, launched_job(launch), command_of(argc, argv), hang_json);
  if (!has_mpi) watchdog.has_no_launcher();
  std::optional<Session> session;
  if (const ExitCode code = open_session(session, argc, argv, launch, start, watchdog); !session) return code_of(code);
  const Comm& world = session->world();
  watchdog.begin_step(Phase::initialization, "connecting the watchers");
  if (!has_mpi) oversubscribed = crowd_of(world.split_by_host().size());
  Job job(world, oversubscribed, watchdog, carried_by(launch, world));
  const auto finish = [&](ExitCode code) {
    watchdog.begin_step(Phase::mpi_finalize, has_mpi ? "MPI_Finalize" : "leaving the other processes");
    watchdog.set_kept({});
    return code_of(code);
  };
  try {
    connect_watchers(world, watchdog);
    warn_of_other_local_ranks(launch, world);
    if (world.rank() == 0) {
      for (const std::string& warning : {launch.warning, separate_worlds_warning(launch, world.size())})
        if (!warning.empty()) say("warning: {}", warning);
    }
    return finish(work(job));
  } catch (const AgreedError& e) {
    if (world.rank() == 0) say("error: {}", e.what());
    return finish(e.code());
  } catch (const std::exception&) {
    job.end(std::current_exception());
  }
}

Launch job_launch(LauncherChoice choice) {
  Launch launch = detect_launch(::getenv, choice);
  if (launch.carrier == Carrier::sockets) return launch;
  const std::string why = why_no_mpi();
  return why.empty() ? launch : launch_without_mpi(why, ::getenv, choice);
}

Launch chosen_launch(const CommandLine& line) { return job_launch(on_command_line(line).launcher); }

MpiStart mpi_start(const CommandLine& line) {
  const Config config = on_command_line(line);
  return {config.timeout_s, config.mpi_threads, config.meet_key};
}

std::optional<ConfigFile> read_config_file(const std::string& path) {
  if (path.empty()) return std::nullopt;
  return ConfigFile{path, read_file(path, "the --config file")};
}

std::optional<ConfigFile> agree_on_config_file(Job& job, const std::string& path) {
  if (path.empty()) return std::nullopt;
  std::optional<ConfigFile> file = ConfigFile{path, {}};
  job.begin_files("reading --config " + path);
  on_process0(job.world(), [&] { file = read_config_file(path); });
  file->text = job.world().broadcast(file->text, 0);
  job.begin_step(Phase::initialization, "reading the options");
  return file;
}

int run_benchmark(int argc, char** argv, const std::function<std::string()>& help,
                  const std::function<ExitCode(Job& job, const Configured& configured)>& work) {
  const Launch detected = detect_launch();
  return run_before_session(detected, [&] {
    const CommandLine line = scan_arguments(argc, argv);
    if (const auto code = help_or_version(detected, line.action, help)) return *code;
    const Launch launch = chosen_launch(line);
    relaunch_if_alone(launch, line, argc, argv);
    return run_session(argc, argv, launch, mpi_start(line), [&](Job& job) {
      const std::optional<ConfigFile> file = agree_on_config_file(job, line.config_file);
      Configured configured;
      collectively(job.world(), "reading the options", [&] { configured = configure(line, file, ::getenv); });
      return work(job, configured);
    });
  });
}

}  // namespace busbar
