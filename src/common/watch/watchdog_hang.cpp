#include "common/base/say.h"
#include "common/evidence/hang_evidence.h"
#include "common/machine/answer_within.h"
#include "common/processes/child.h"
#include "common/watch/flight_layout.h"
#include "common/watch/limits.h"
#include "common/watch/local_evidence.h"
#include "common/watch/peer_address.h"
#include "common/watch/peer_messages.h"
#include "common/watch/watchdog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <future>
#include <system_error>

namespace busbar {
namespace {

/// The working directory of process 0 if it can be had from here, else the folder for temporary files. A process that
/// does not know the other hosts yet takes its own: launchers start all ranks in one, which clusters mostly share.
std::filesystem::path json_folder(const JobView& view, const HangEvidence& evidence) {
  if (view.rank == 0 || view.peers.empty()) return ".";
  for (const HostEvidence& host : evidence.hosts) {
    if (host.host != view.host) continue;
    for (const RankEvidence& rank : host.ranks) {
      if (rank.flight.rank == 0 && rank.process.life == ProcessState::Life::alive)
        return fmt::format("/proc/{}/cwd", rank.flight.pid);
    }
  }
  return temporary_folder();
}

/// Runs `work` in a separate thread and waits for it that long: it may write to what the job hangs on. If the system
/// has no thread left, runs it here. Returns whether it is done.
template <class Work>
bool done_within(double seconds, Work work) {
  try {
    return answer_within(seconds,
                         [work] {
                           work();
                           return true;
                         })
        .has_value();
  } catch (const std::system_error&) {
    work();
    return true;
  }
}

void say_within(double seconds, const std::string& text) {
  (void)done_within(seconds, [text] { write_all(STDERR_FILENO, text); });
}

/// Removes the records of this job on this host whose owners are gone or frozen; with `of_lively`, all others too. Its
/// own last: a process that misses that one (is_first_to_end) then misses its own as well (was_tidied_up).
void remove_records(const JobView& view, bool of_lively) {
  std::error_code ignored;
  std::filesystem::path own;
  // There may be many of other jobs, and little time.
  for (const std::filesystem::path& file : files_named(flight_folders(), flight_file_prefix(view.jobid, view.host))) {
    const std::optional<FlightState> flight = read_flight(file);
    if (!flight || flight->jobid != view.jobid || flight->host != view.host) continue;
    if (!of_lively && is_lively({*flight, process_state(*flight)})) continue;
    if (flight->rank == view.rank) {
      own = file;
    } else {
      std::filesystem::remove(file, ignored);
    }
  }
  if (!own.empty()) std::filesystem::remove(own, ignored);
}

/// As a launcher does: a stopped process notices no end.
void kill_stopped(const JobView& view) {
  for (const RankEvidence& rank : read_local_ranks(view))
    if (rank.flight.rank != view.rank && rank.process.state == 'T') kill(static_cast<pid_t>(rank.flight.pid), SIGKILL);
}

/// Whether no lower rank of this host reports or, with `or_did`, has reported and gone.
bool is_first_to_end(const JobView& view, bool or_did) {
  const std::vector<RankEvidence> ranks = read_local_ranks(view);
  return std::ranges::none_of(ranks, [&](const RankEvidence& rank) {
    const bool leaves =
        rank.flight.ending == Ending::signalled && (or_did || rank.process.life != ProcessState::Life::gone);
    return rank.flight.rank < view.rank && (is_lively(rank) || leaves);
  });
}

/// Whether nothing is left to learn about a job that ends: all hosts have answered, and each process leaves or cannot.
bool all_have_ended(const HangEvidence& evidence) {
  return std::ranges::none_of(evidence.hosts, [](const HostEvidence& host) {
    return (host.ever_reached && !host.reached) || std::ranges::any_of(host.ranks, can_move);
  });
}

/// The result has been printed; a launcher that sees an exit code other than 0 ends ranks that have not quite left.
bool is_at_its_end(const FlightState& flight) {
  return flight.phase == Phase::resting || flight.phase == Phase::mpi_finalize;
}

/// Whether there are other hosts that this one does not know yet.
bool is_one_of_many(const JobView& view) { return view.peers.empty() && view.nprocs > view.local_size; }

/// Whether a neighbor reported the hang and tidied up while this process was stopped: the launcher continues it only to
/// end it.
bool was_tidied_up(const FlightRecord& own) {
  std::error_code unknown;
  return !own.path().empty() && !std::filesystem::exists(own.path(), unknown) && !unknown;
}

/// Whether the first host is another, was never reached or is walled off, and lives as far as is known here.
bool is_first_host_hidden(const JobView& view, const HangEvidence& evidence) {
  const std::vector<bool> met = hosts_reached_at_start(view);
  return !met.empty() && view.host_index() != 0 && (!met.front() || is_walled(evidence, evidence.hosts.front()));
}

/// If the watchers of the first host are hidden, this host cannot know its processes' state: they may write results for
/// minutes. They end the job if it hangs; but this host knows what is dead or stopped here. If they no longer answer,
/// the way to them may be lost: then no process ends this part, and it only lets them report first.
bool waits_for_first_host(const JobView& view, const FlightState& me, const HangEvidence& evidence) {
  constexpr double kSayWithin = 5;  // [s]
  if (!is_first_host_hidden(view, evidence) || !all_can_move(evidence)) return false;
  return me.idle_s < me.limit_s + (hosts_reached_at_start(view).front() ? kSayWithin : kOutputLimit);
}

/// A launcher may signal other hosts a second later, when the first has ended. A host that cannot ask the others must
/// not take processes for dead that only left before it.
void forgive_ended_before(HangEvidence& evidence) {
  for (HostEvidence& host : evidence.hosts)
    if (host.silence == Silence::refused) host.ever_reached = false;
}

/// A rank that keeps the others waiting for a reason that may last: it is in a debugger, or it writes results.
const RankEvidence* held_up_by(const HangEvidence& evidence) {
  const RankEvidence* held = traced(evidence);
  return held != nullptr ? held : writer(evidence);
}

std::string held_up_line(const RankEvidence& rank) {
  const FlightState& f = rank.flight;
  const std::string who = fmt::format("busbar: slow: rank {} on {} (pid {})", f.rank, f.host, f.pid);
  if (rank.process.tracer != 0)
    return fmt::format("{} is held by a debugger (pid {}); the job waits until that ends\n", who, rank.process.tracer);
  return fmt::format("{} has been {} for {:.0f} s, and the others wait for it, for {:.0f} s at most\n", who,
                     f.phase == Phase::output ? f.step : "writing results", f.idle_s, f.limit_s);
}

/// A process that ended because of an error has reported it; ranks that it merely took along need no report.
bool is_reported_error(const HangEvidence& evidence, const HangFinding& finding) {
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

void Watchdog::investigate() {
  const JobView now = view();
  const FlightState me = current_record()->state();
  note_standing(now);
  if (another_investigates(now, me)) return;
  ask_ras_again(now);
  HangEvidence evidence = collect(now, observer_, false);
  if (stopping_ || ending_) return;
  decide(now, current_record()->state(), evidence);
}

/// Without memory for an investigation, reports the bare verdict: a hanging job is reported and ended all the same.
void Watchdog::look_failed(const char* why) {
  constexpr int kMost = 3;
  const FlightState me = current_record()->state();
  if (stopping_ || ++failed_looks_ < kMost || me.limit_s <= 0 || me.idle_s < me.limit_s) {
    postpone(1);
    return;
  }
  if (ending_.exchange(true)) return;
  std::array<char, 300> line{};
  const int length = std::snprintf(line.data(), line.size(),
                                   "busbar: hang: UNKNOWN: nothing has advanced for %.0f s, the limit is %.0f s; the "
                                   "other ranks' state could not be collected: %s\n",
                                   me.idle_s, me.limit_s, why);
  write_all(STDERR_FILENO, {line.data(), std::min(line.size() - 1, static_cast<std::size_t>(std::max(length, 0)))});
  keep_records_ = true;
  try {
    notify_others(view(), kStopAndKeep);
  } catch (const std::exception&) {
    // they will find this process gone
  }
  leave();
}

/// The lowest lively rank of the lowest reachable host does it for all; the processes before this one are alarmed.
bool Watchdog::another_investigates(const JobView& now, const FlightState& me) {
  constexpr double kPatience = 20;  // [s] for another process that promised to do it
  const std::vector<RankEvidence> ranks = read_local_ranks(now);
  const int reader = host_reader(ranks).value_or(now.rank);
  alarmed_ = false;
  if (now.peers.empty()) {
    // No process can be alarmed yet; all began at about the same time.
    const double delay_s = reader == now.rank ? lone_report_delay_s(now, ranks) : 8;
    const bool waits = me.idle_s < me.limit_s + delay_s;
    if (waits) postpone(1);
    return waits;
  }
  if (reader == now.rank && (now.host_index() == 0 || !can_be_asked(now))) return false;
  const std::optional<std::string> answer = alarm_others(now, reader);
  if (!answer) return false;
  if (*answer == kMoves) deferred_ = Clock::time_point{};
  if (deferred_.load() == Clock::time_point{}) deferred_ = Clock::now();
  if (Clock::now() - deferred_.load() > std::chrono::duration<double>(kPatience)) return false;
  postpone(*answer == kMoves ? 5 : 2);
  return true;
}

void Watchdog::ask_ras_again(const JobView& now) {
  if (!has_ras_) return;
  RasQuestion question = safe_ras_question(nccl_version_, RasHazards{});
  const bool depends_on_ranks =
      question.format == RasFormat::none &&
      safe_ras_question(nccl_version_, {.initializing = false, .missing = false}).format != RasFormat::none;
  if (depends_on_ranks) question = safe_ras_question(nccl_version_, ras_hazards(collect(now, observer_, false)));
  RasEvidence answer;
  if (question.format != RasFormat::none) {
    answer = ras_observer_.look_again(question.format);
  } else {
    answer.why_not = std::move(question.why_not);
  }
  answer.host = now.host;
  const std::lock_guard lock(mutex_);
  ras_ = {std::move(answer)};
}

void Watchdog::note_standing(const JobView& view) {
  const std::vector<JobLink> links = observer_.evidence(view).links;
  const std::lock_guard lock(mutex_);
  for (const JobLink& link : links)
    if (link.state == JobLink::State::standing) stood_.insert(link.host);
}

/// Hosts that cannot alarm each other end by themselves when their limits are over. A connection that was open until
/// then was not closed by the cause of the hang.
void Watchdog::recall_standing(HangEvidence& evidence) {
  const std::lock_guard lock(mutex_);
  for (HostEvidence& from : evidence.hosts) {
    std::erase_if(from.links, [&](const JobLink& link) {
      return stood_.contains(link.host) && link.state == JobLink::State::closed;
    });
    if (from.host != evidence.reporter_host) continue;
    for (const std::string& host : stood_) {
      const bool known = std::ranges::any_of(from.links, [&](const JobLink& link) { return link.host == host; });
      if (!known) from.links.push_back({host, JobLink::State::standing});
    }
  }
}

void Watchdog::decide(const JobView& now, const FlightState& me, HangEvidence& evidence) {
  {
    const std::lock_guard lock(mutex_);
    evidence.ras = ras_;
  }
  evidence.limit_s = me.limit_s;
  evidence.idle_s = job_idle_s(evidence);
  const double patience = patience_s(evidence);
  const RankEvidence* held_by = evidence.idle_s >= shortest_limit_s(evidence) ? held_up_by(evidence) : nullptr;
  const bool moves = patience > 0 || network_moves(evidence) || held_by != nullptr;
  const bool over =
      held_by == nullptr && me.limit_s > 0 &&
      me.step_age_s >= slow_limit_s(me.limit_s, me.step_age_s, static_cast<double>(me.entered - me.step_first),
                                    static_cast<double>(me.step_calls));
  if (moves && !over) {
    alarmed_ = false;
    last_moved_ = Clock::now();
    const std::vector<bool> met = hosts_reached_at_start(now);
    const bool first_says_it = now.host_index() != 0 && !met.empty() && met.front();
    if (held_by != nullptr && !first_says_it && !slow_reported_.exchange(true)) say_within(1, held_up_line(*held_by));
    // A dead or stopped process is not slow: the hang will be reported with its name. Nor is a job that has stood still
    // for half its limit: it will be reported as hung, or move again.
    const bool advanced = evidence.idle_s < me.limit_s / 2 || network_moves(evidence);
    const bool slow = me.limit_s > 0 && me.step_age_s >= me.limit_s && advanced && all_can_move(evidence);
    if (slow && !slow_reported_) {
      evidence.occasion = HangEvidence::Occasion::slow_limit;
      const HangFinding finding = judge(evidence);
      if (finding.verdict == Verdict::slow_not_hung) {
        slow_reported_ = true;
        say_within(1, hang_report(evidence, finding));
      }
    }
    postpone(std::clamp(patience, 1.0, 30.0));
    return;
  }
  if (waits_for_first_host(now, me, evidence)) {
    alarmed_ = false;
    postpone(5);
    return;
  }
  // By then the kernel knows what it has sent in vain.
  if (!doubtful_pairs(evidence).empty() && !std::exchange(asked_again_, true)) {
    postpone(3);
    return;
  }
  evidence.occasion = moves ? HangEvidence::Occasion::slow_limit : HangEvidence::Occasion::limit;
  recall_standing(evidence);
  const bool aloud = reports_for_job(now, evidence);
  if (ending_.exchange(true)) return;  // another host was faster and has reported it
  // A part of the job that is cut off leaves its records for `busbar diagnose --flight`.
  keep_records_ = !aloud;
  report(now, evidence, judge(evidence), aloud, keep_records_ ? kStopAndKeep : kStop);
  leave();
}

/// Reports to the terminal first and writes the file last: it goes where the job's own files may hang. Where the file
/// is must be printed before the others leave: a launcher shows nothing more once one has.
void Watchdog::report(const JobView& now, const HangEvidence& evidence, const HangFinding& finding, bool aloud,
                      std::string_view notice) {
  constexpr double kSayWithin = 1, kAnswer = 0.5, kWrite = 3;  // [s]; a launcher that ends the job gives about as long
  say_within(kSayWithin, aloud ? hang_report(evidence, finding) : part_report(evidence, finding));
  if (!json_) {
    notify_others(now, notice);
    return;
  }
  const std::string name =
      aloud ? fmt::format("hang-{}.json", now.jobid) : fmt::format("hang-{}.{}.json", now.jobid, now.host);
  const auto path = std::make_shared<std::promise<std::string>>();
  std::future<std::string> written = path->get_future();
  (void)done_within(0, [path, name, aloud, now, evidence, text = json_(evidence, finding)] {
    std::string at;
    try {
      if (aloud) at = write_private_file(text, json_folder(now, evidence), name);
      if (at.empty()) at = write_private_file(text, temporary_folder(), name);
    } catch (const std::exception&) {
      at.clear();
    }
    path->set_value(std::move(at));
  });
  const auto say_where_within = [&](double seconds) {
    if (written.wait_for(std::chrono::duration<double>(seconds)) != std::future_status::ready) return false;
    const std::string at = written.get();
    if (aloud) {
      say_within(kSayWithin, at.empty() ? fmt::format("busbar: {} could not be written\n", name)
                                        : fmt::format("busbar: all of it: {}\n", at));
    }
    return true;
  };
  const bool said = say_where_within(kAnswer);
  if (!said)
    say_within(kSayWithin, fmt::format("busbar: {} is not written yet: its file system does not answer\n", name));
  notify_others(now, notice);
  if (!said) (void)say_where_within(kWrite);
}

void Watchdog::leave() {
  // The second caller waits for the first to end the process.
  ending_ = true;
  while (leaving_.exchange(true)) std::this_thread::sleep_for(std::chrono::seconds(1));
  const JobView now = view();
  const std::shared_ptr<FlightRecord> own = current_record();
  own->end(Ending::hung);
  // Aborting waits for libraries that may never answer.
  std::atomic<bool> aborted{false};
  // This thread never returns from here, nor may the destructor before it: what the other thread uses outlives it.
  try {
    std::thread([this, &aborted] {
      const std::lock_guard lock(mutex_);
      for (Backend* backend : backends_) backend->abort();
      aborted = true;
    }).detach();
  } catch (const std::system_error&) {
    aborted = true;  // without the thread, then
  }
  for (int i = 0; i < 20 && !aborted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (no_launcher_) kill_stopped(now);
  if (!keep_records_) {
    // Of all ranks: the launcher continues stopped ones only to kill them before they can tidy up.
    remove_records(now, true);
    std::error_code ignored;
    std::filesystem::remove(own->path(), ignored);
  }
  _exit(static_cast<int>(ExitCode::timeout));
}

void Watchdog::peer_has_gone() {
  if (stopping_ || peer_gone_.exchange(true) || !signal_thread_.joinable()) return;
  pthread_kill(signal_thread_.native_handle(), SIGTERM);
}

void Watchdog::leave_with(ExitCode code) {
  // Another thread may be faster, and ends this process.
  while (ending_.exchange(true)) std::this_thread::sleep_for(std::chrono::seconds(1));
  current_record()->end(Ending::signalled);
  remove_records(view(), true);
  _exit(static_cast<int>(code));
}

void Watchdog::wait_for_signal() {
  int number = 0;
  while (sigwait(&signals_, &number) != 0) {
  }
  if (stopping_) return;
  // leave() ends the process within two seconds, with its own code. Else the record shows at once why it ends: a
  // launcher may follow with SIGKILL, and then its rank must not look like one that died before.
  if (ending_) {
    std::this_thread::sleep_for(std::chrono::seconds(3));
  } else {
    current_record()->end(Ending::signalled);
  }
  terminated(number);
  const std::shared_ptr<FlightRecord> own = current_record();
  const bool forgotten = forget_ || (result_reported_ && is_at_its_end(own->state()));
  own->end(Ending::signalled);
  own->keep();
  // Its own too: it has just ended. Inside MPI_Init the library ends the others of a host as soon as one has left.
  const JobView now = view();
  if (peer_gone_) kill_stopped(now);
  if (forgotten) remove_records(now, forget_);
  if (peer_gone_) _exit(static_cast<int>(ExitCode::timeout));
  // By the signal's own default, so that a waiting parent sees it.
  std::signal(number, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
  kill(getpid(), number);
  // As the first process of a container it survives signals that it does not handle.
  _exit(128 + number);
}

/// How long other watchers may take for an answer while the job ends.
std::chrono::milliseconds Watchdog::reply_limit() const { return std::chrono::milliseconds(peer_gone_ ? 1000 : 150); }

/// Whether a lower rank of this host, or a host before it, reports the end. Where no launcher ends this process, it
/// waits until that is done: the other one may be dying itself, and then this one is next.
bool Watchdog::another_reports(const JobView& now) {
  constexpr int kWordIsUnderWay = 4;
  const bool hears_of_it = !now.peers.empty();
  for (int look = 0; look < (hears_of_it ? 20 : 2); ++look) {
    // In this order: a neighbor that reports may be tidying up just now.
    const bool is_first = is_first_to_end(now, look < kWordIsUnderWay);
    if (reported_elsewhere_ || forget_ || was_tidied_up(*current_record())) return true;
    if (is_first && (now.host_index() == 0 || !another_host_reports(now, reply_limit()))) return false;
    if (!peer_gone_) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  return !hears_of_it;
}

/// A launcher that ends the job gives about a second before SIGKILL.
void Watchdog::terminated(int signal) {
  constexpr double kQuiet = 5;  // [s] in which even a healthy job may not have advanced
  const JobView now = view();
  const FlightState me = current_record()->state();
  const bool was_reported = result_reported_;
  if (was_reported && is_at_its_end(me) && me.step_age_s < kQuiet) return;
  // Over its limit: a host that has somebody to blame reports it, which these hosts do not know.
  const bool is_reported_elsewhere = is_one_of_many(now) && me.limit_s > 0 && me.idle_s >= me.limit_s;
  if (another_reports(now)) {
    if (is_reported_elsewhere) {
      forget_ = true;
    } else if (!peer_gone_) {
      // Its server continues to answer meanwhile, and no launcher sees a first end before the neighbor has reported: it
      // would kill the others.
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
    }
    return;
  }
  note_standing(now);
  HangEvidence evidence = collect(now, observer_, true, reply_limit());
  // No launcher is in haste: on a busy host, others answer late, and one that is killed closes its connections while
  // the host still takes it for alive.
  constexpr std::chrono::seconds kToEnd{3};
  for (const auto until = Clock::now() + kToEnd; peer_gone_ && !all_have_ended(evidence) && Clock::now() < until;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    evidence = collect(now, observer_, true, reply_limit());
  }
  recall_standing(evidence);
  if (!can_be_asked(now)) forgive_ended_before(evidence);
  evidence.occasion = HangEvidence::Occasion::terminated;
  evidence.idle_s = job_idle_s(evidence);
  evidence.limit_s = current_record()->state().limit_s;
  const HangFinding finding = judge(evidence);
  if (is_reported_error(evidence, finding)) {
    forget_ = true;
    notify_others(now, kForget);
    return;
  }
  const bool names_nobody = finding.ranks.empty() && finding.hosts.empty();
  // A host with nobody to blame leaves the report to rank 0.
  if (is_one_of_many(now) && names_nobody && (now.host_index() != 0 || is_reported_elsewhere)) {
    forget_ = is_reported_elsewhere;
    return;
  }
  // Another host has promised to report what holds the job up; it could not tell this one that it has.
  if (names_nobody && deferred_.load() != Clock::time_point{}) return;
  // A user pressed Ctrl-C or a batch system's time was up: no full report.
  const bool is_plain = names_nobody && evidence.idle_s < kQuiet;
  // Never released: no row may be shown any more that the line does not count.
  kept_mutex_.lock();
  if (!was_reported && result_reported_) return;  // it has ended meanwhile
  const std::string kept = kept_.empty() ? kNothingKept : kept_;
  const std::string line = peer_gone_ ? fmt::format("busbar: interrupted (another process has ended): {}\n", kept)
                                      : interrupted_line(signal, kept);
  // A launcher's signal may reach other hosts much later, when no process here is left to answer them.
  if (!is_plain) {
    const bool hidden = !now.failed_connections.empty() || is_first_host_hidden(now, evidence);
    report(now, evidence, finding, reports_for_job(now, evidence) || !hidden, kReported);
    if (!kept_.empty()) say_within(1, line);
    return;
  }
  // Nothing is left to explain, and no record may suggest it: a launcher soon kills ranks that have not tidied up.
  forget_ = true;
  remove_records(now, true);
  // The first host also reports for hosts that nobody could reach.
  const bool first_says_it =
      now.host_index() != 0 && (!now.failed_connections.empty() || is_first_host_hidden(now, evidence));
  if (!was_reported && !first_says_it) say_within(1, line);
  notify_others(now, kForget);
}

}  // namespace busbar
