#include "common/watch/hang_evidence.h"
#include "common/watch/limits.h"
#include "common/watch/local_evidence.h"
#include "common/watch/watchdog_impl.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

namespace busbar {
namespace {

/// The records of this job on this host whose owners are gone or frozen; `of_lively`: all others too.
void remove_records(const JobView& view, bool of_lively) {
  const std::string prefix = fmt::format("busbar.{}.", getuid());
  for (const std::filesystem::path& folder : flight_folders()) {
    std::error_code failed;
    for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
      if (!at->path().filename().string().starts_with(prefix)) continue;
      const std::optional<FlightState> flight = read_flight(at->path());
      if (!flight || flight->jobid != view.jobid || flight->host != view.host) continue;
      std::error_code ignored;
      const bool removes = of_lively || !is_lively({*flight, process_state(*flight)});
      if (removes) std::filesystem::remove(at->path(), ignored);
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
