#include "common/watch/hang_evidence.h"
#include "common/watch/limits.h"
#include "common/watch/watchdog_impl.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace busbar {
namespace {

std::filesystem::path scratch_folder() {
  const char* folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

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
  return scratch_folder();
}

/// Where it was written; empty where it could not be.
std::string write_json(const std::string& text, const std::filesystem::path& folder, const std::string& name) {
  for (const std::filesystem::path& at : {folder, scratch_folder()}) {
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

}  // namespace

void write_to_stderr(std::string_view text) {
  // write, not stdio: the main thread may hold any lock.
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

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
        write_json(json(evidence, finding), aloud ? json_folder(now, evidence) : scratch_folder(), name);
    text += path.empty() ? fmt::format("busbar: {} could not be written\n", name)
                         : fmt::format("busbar: all of it: {}\n", path);
  }
  if (aloud) write_to_stderr(text);
}

}  // namespace busbar
