#include "common/watch/flight_layout.h"
#include "common/watch/hang_evidence.h"
#include "common/watch/limits.h"
#include "common/watch/local_evidence.h"
#include "common/watch/watchdog_impl.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

namespace busbar {
namespace {

/// The working directory of process 0 where that can be had from here, else the folder for temporary files. Who does
/// not know the other hosts yet takes its own: launchers start all ranks in one, which clusters mostly share.
std::filesystem::path json_folder(const JobView& view, const HangEvidence& evidence) {
  if (view.rank == 0 || view.peers.empty()) return ".";
  for (const HostEvidence& host : evidence.hosts) {
    if (host.host != view.host) continue;
    for (const RankEvidence& rank : host.ranks) {
      if (rank.flight.rank == 0 && rank.process.life == ProcessState::Life::alive) {
        return fmt::format("/proc/{}/cwd", rank.flight.pid);
      }
    }
  }
  return temporary_folder();
}

/// Where it was written; empty where it could not be.
std::string write_json(const std::string& text, const std::filesystem::path& folder, const std::string& name) {
  for (const std::filesystem::path& at : {folder, temporary_folder()}) {
    std::error_code failed;
    const std::filesystem::path real = std::filesystem::canonical(at, failed);
    if (failed) continue;
    std::ofstream file(real / name, std::ios::trunc);
    file << text;
    file.close();
    if (file) return (real / name).string();
  }
  return {};
}

/// Not through stdio: the main thread may hold any of its locks.
void write_to_stderr(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// The records of this job on this host whose owners are gone or frozen; `of_lively`: all others too.
void remove_records(const JobView& view, bool of_lively) {
  const std::string prefix = fmt::format("busbar.{}.", getuid());
  for (const std::filesystem::path& folder : flight_folders()) {
    for (const std::filesystem::path& file : files_named(folder, prefix)) {
      const std::optional<FlightState> flight = read_flight(file);
      if (!flight || flight->jobid != view.jobid || flight->host != view.host) continue;
      std::error_code ignored;
      if (of_lively || !is_lively({*flight, process_state(*flight)})) std::filesystem::remove(file, ignored);
    }
  }
}

/// Whether no lower rank of this host speaks or has spoken.
bool is_first_to_end(const JobView& view) {
  const std::vector<RankEvidence> ranks = read_local_ranks(view);
  return std::none_of(ranks.begin(), ranks.end(), [&](const RankEvidence& rank) {
    return rank.flight.rank < view.rank && (is_lively(rank) || rank.flight.ending == Ending::signalled);
  });
}

/// The result is told; a launcher that sees a first exit code other than 0 ends those that have not quite left.
bool is_at_its_end(const FlightState& flight) {
  return flight.phase == Phase::resting || flight.phase == Phase::mpi_finalize;
}

/// Whether there are other hosts that this one does not know yet.
bool is_one_of_many(const JobView& view) { return view.peers.empty() && view.nprocs > view.local_size; }

/// Whether a neighbour has told the hang and tidied up while this process was stopped: the launcher continues it only
/// to end it.
bool was_tidied_up(const FlightRecord& own) {
  std::error_code unknown;
  return !own.path().empty() && !std::filesystem::exists(own.path(), unknown) && !unknown;
}

/// A process that ended because of an error has said why; ranks that it merely took along need no report.
bool is_told_error(const HangEvidence& evidence, const HangFinding& finding) {
  if (finding.verdict != Verdict::process_dead && finding.verdict != Verdict::unknown) return false;
  bool failed = false, silent = false;
  for (const HostEvidence& host : evidence.hosts) {
    for (const RankEvidence& rank : host.ranks) {
      failed = failed || rank.flight.ending == Ending::failed;
      silent = silent || (rank.flight.ending == Ending::none && rank.process.life == ProcessState::Life::gone);
    }
  }
  return failed && !silent;
}

}  // namespace

void Watchdog::Impl::investigate() {
  const JobView now = view();
  const FlightState me = current_record()->state();
  if (another_investigates(now, me)) return;
  ask_ras_again();
  HangEvidence evidence = collect(now, observer, false, {});
  if (stopping || ending) return;
  decide(now, current_record()->state(), evidence);
}

/// The lowest lively rank of the lowest host that can be reached does it for all; those it knows are told.
bool Watchdog::Impl::another_investigates(const JobView& now, const FlightState& me) {
  constexpr double kPatience = 20;  // [s] for another one that said that it would
  const std::vector<RankEvidence> ranks = read_local_ranks(now);
  const int reader = host_reader(ranks).value_or(now.rank);
  alarmed = false;
  if (now.peers.empty()) {
    // Nobody can be told yet; all began at about the same time.
    const double delay_s = reader == now.rank ? lone_report_delay_s(now, ranks) : 8;
    const bool waits = me.idle_s < me.limit_s + delay_s;
    if (waits) postpone(1);
    return waits;
  }
  if (reader == now.rank && now.host_index() == 0) return false;
  const std::optional<std::string> answer = alarm_others(now, reader);
  if (!answer) return false;
  if (*answer == kMoves) deferred = Clock::time_point{};
  if (deferred.load() == Clock::time_point{}) deferred = Clock::now();
  if (Clock::now() - deferred.load() > std::chrono::duration<double>(kPatience)) return false;
  postpone(*answer == kMoves ? 5 : 2);
  return true;
}

void Watchdog::Impl::ask_ras_again() {
  if (!has_ras) return;
  RasEvidence answer = ras_observer.look_again();
  answer.host = view().host;
  const std::lock_guard lock(mutex);
  ras = {std::move(answer)};
}

void Watchdog::Impl::decide(const JobView& now, const FlightState& me, HangEvidence& evidence) {
  {
    const std::lock_guard lock(mutex);
    evidence.ras = ras;
  }
  evidence.limit_s = me.limit_s;
  evidence.idle_s = job_idle_s(evidence);
  const double patience = patience_s(evidence);
  const bool moves = patience > 0 || network_moves(evidence);
  const bool over = me.limit_s > 0 && me.step_age_s >= slow_limit_s(me.limit_s, me.step_age_s,
                                                                    static_cast<double>(me.entered - me.step_first),
                                                                    static_cast<double>(me.step_calls));
  if (moves && !over) {
    alarmed = false;
    last_moved = Clock::now();
    // A process that is dead or stopped is not slow: the hang will be told with its name.
    // Nor is what stood still for half its limit: it will be told as hung, or move again.
    const bool advanced = evidence.idle_s < me.limit_s / 2 || network_moves(evidence);
    const bool slow = me.limit_s > 0 && me.step_age_s >= me.limit_s && advanced && all_can_move(evidence);
    if (slow && !slow_told) {
      evidence.occasion = HangEvidence::Occasion::slow_limit;
      const HangFinding finding = judge(evidence);
      if (finding.verdict == Verdict::slow_not_hung) {
        slow_told = true;
        write_to_stderr(hang_report(evidence, finding));
      }
    }
    postpone(std::clamp(patience, 1.0, 30.0));
    return;
  }
  evidence.occasion = moves ? HangEvidence::Occasion::slow_limit : HangEvidence::Occasion::limit;
  const bool aloud = holds_majority(now, evidence);
  if (ending.exchange(true)) return;  // another host was faster and has told it
  // A part of the job that is cut off leaves its records for `busbar diagnose --flight`.
  keep_records = !aloud;
  report(now, evidence, judge(evidence), aloud);
  tell_others(now, keep_records ? kStopAndKeep : kStop);
  leave();
}

void Watchdog::Impl::report(const JobView& now, const HangEvidence& evidence, const HangFinding& finding, bool aloud) {
  std::string text = hang_report(evidence, finding);
  if (json) {
    const std::string name =
        aloud ? fmt::format("hang-{}.json", now.jobid) : fmt::format("hang-{}.{}.json", now.jobid, now.host);
    const std::string path =
        write_json(json(evidence, finding), aloud ? json_folder(now, evidence) : temporary_folder(), name);
    text += path.empty() ? fmt::format("busbar: {} could not be written\n", name)
                         : fmt::format("busbar: all of it: {}\n", path);
  }
  if (aloud) write_to_stderr(text);
}

void Watchdog::Impl::leave() {
  // Whoever comes second waits for the first to end the process.
  ending = true;
  while (leaving.exchange(true)) std::this_thread::sleep_for(std::chrono::seconds(1));
  const JobView now = view();
  const std::shared_ptr<FlightRecord> own = current_record();
  own->end(Ending::hung);
  // Aborting waits for libraries that may never answer.
  std::atomic<bool> aborted{false};
  std::thread([this, &aborted] {
    const std::lock_guard lock(mutex);
    for (Backend* backend : backends) backend->abort();
    aborted = true;
  }).detach();
  for (int i = 0; i < 20 && !aborted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (!keep_records) {
    // Of all: what is stopped the launcher lets go on, only to kill it before it can tidy up.
    remove_records(now, true);
    std::error_code ignored;
    std::filesystem::remove(own->path(), ignored);
  }
  _exit(static_cast<int>(ExitCode::timeout));
}

void Watchdog::Impl::wait_for_sigterm() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  int number = 0;
  while (sigwait(&set, &number) != 0) {
  }
  if (stopping) return;
  // leave() ends the process within two seconds, with its own code.
  if (ending) std::this_thread::sleep_for(std::chrono::seconds(3));
  terminated();
  const std::shared_ptr<FlightRecord> own = current_record();
  const bool forgotten = forget || is_at_its_end(own->state());
  own->end(Ending::signalled);
  own->keep();
  // Its own too: it has just ended. Inside MPI_Init the library ends the others of a host as soon as one has left.
  const JobView now = view();
  if (forgotten) remove_records(now, forget && is_one_of_many(now));
  // By the signal's own default, so that whoever waits sees it.
  std::signal(SIGTERM, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  kill(getpid(), SIGTERM);
}

/// A launcher that ends the job gives about a second before SIGKILL.
void Watchdog::Impl::terminated() {
  constexpr double kQuiet = 5;  // [s] in which even a healthy job may not have advanced
  const JobView now = view();
  const FlightState me = current_record()->state();
  if ((is_at_its_end(me) && me.step_age_s < kQuiet) || was_tidied_up(*current_record())) return;
  // Over its limit: by a host that has somebody to name, which these do not know.
  const bool is_told_elsewhere = is_one_of_many(now) && me.limit_s > 0 && me.idle_s >= me.limit_s;
  if (told || forget || !is_first_to_end(now) || (now.host_index() != 0 && another_host_speaks(now))) {
    if (is_told_elsewhere) {
      forget = true;
    } else {
      // Its server goes on answering meanwhile.
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
    }
    return;
  }
  HangEvidence evidence = collect(now, observer, true, {});
  evidence.occasion = HangEvidence::Occasion::terminated;
  evidence.idle_s = job_idle_s(evidence);
  evidence.limit_s = current_record()->state().limit_s;
  const HangFinding finding = judge(evidence);
  if (is_told_error(evidence, finding)) {
    forget = true;
    tell_others(now, kForget);
    return;
  }
  const bool names_nobody = finding.ranks.empty() && finding.hosts.empty();
  // Who has nobody to name leaves the word to rank 0.
  if (is_one_of_many(now) && names_nobody && (now.host_index() != 0 || is_told_elsewhere)) {
    forget = is_told_elsewhere;
    return;
  }
  // Somebody pressed Ctrl-C or a batch system's time was up: that fills no screen.
  const bool is_plain = names_nobody && evidence.idle_s < kQuiet;
  if (is_plain) {
    const std::string text = hang_report(evidence, finding);
    write_to_stderr(text.substr(0, text.find('\n') + 1));
  } else {
    report(now, evidence, finding, true);
  }
  // A launcher's signal may reach other hosts much later, when nobody here is left to answer them.
  tell_others(now, kTold);
}

}  // namespace busbar
