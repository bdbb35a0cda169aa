#pragma once

#include "common/base/enum_words.h"
#include "common/base/packed_fields.h"
#include "common/evidence/hang_evidence.h"

namespace busbar {

// The fields of a job's evidence, named once, in the order and with the names of hang-JOBID.json: for hang_json.cpp,
// which writes and reads it, and for the messages between watchers (peer_messages.cpp). A field that is added and
// forgotten here is a compile error, because of the bindings. Only .cpp files include this.

// These words are part of the file's format; do not change them.
constexpr EnumWords<5> words_of(HangEvidence::Occasion) {
  return {"limit", "slow_limit", "terminated", "files", "looks"};
}
constexpr EnumWords<3> words_of(ProcessState::Life) { return {"unknown", "alive", "gone"}; }
constexpr EnumWords<4> words_of(Trouble::Kind) { return {"hardware", "resource", "launcher", "notice"}; }
constexpr EnumWords<6> words_of(Silence) {
  return {"none", "unresponsive", "refused", "no_route", "no_answer", "unreadable"};
}
constexpr EnumWords<5> words_of(PeerProbe::Result) { return {"ok", "refused", "no_route", "timed_out", "large_lost"}; }
constexpr EnumWords<3> words_of(JobLink::State) { return {"standing", "stalled", "closed"}; }
constexpr EnumWords<5> words_of(Ending) { return {"none", "good", "failed", "hung", "signalled"}; }
constexpr EnumWords<13> words_of(Phase) {
  return {"starting", "mpi_init", "initialization", "allocating",   "preparing", "timed_loop", "checking",
          "agreeing", "output",   "finishing",      "mpi_finalize", "resting",   "ended"};
}
static_assert(is_last(Phase::ended) && is_last(Ending::signalled) && is_last(Silence::unreadable) &&
              is_last(PeerProbe::Result::large_lost) && is_last(JobLink::State::closed) &&
              is_last(Trouble::Kind::notice) && is_last(ProcessState::Life::gone) &&
              is_last(HangEvidence::Occasion::looks));

BUSBAR_RECORD(CalledOperation, communicator, collective, count, dtype, op, root, nbytes, in_place);

BUSBAR_RECORD(FinishedStep, phase, collective, nbytes, last_entered, begun_age_s, ended_age_s);

/// A rank's record and the state of its process in /proc, as one object.
void visit_fields(auto&& visit, RankEvidence& evidence) {
  [[maybe_unused]] auto& [flight, process, activity] = evidence;  // only `busbar triage` has an activity
  [[maybe_unused]] auto& [life, state, wchan, tracer] = process;
  [[maybe_unused]] auto& [jobid, host, rank, nprocs, pid, pid_start, pid_namespace, command, started_unix_s,
                          heartbeat_age_s, beat_unix_s, ending, phase, step, call, entered, step_first, step_calls,
                          step_age_s, limit_s, idle_s, error, finished] = flight;
  BUSBAR_FIELDS(visit, flight, rank, nprocs, host, jobid, pid, pid_start, pid_namespace, command, started_unix_s);
  visit("process", process.life);
  BUSBAR_FIELDS(visit, process, state, wchan);
  visit("tracer_pid", process.tracer);
  BUSBAR_FIELDS(visit, flight, heartbeat_age_s, ending, phase, step, call, entered, step_first, step_calls, step_age_s,
                limit_s, idle_s, error, finished);
}

BUSBAR_RECORD(Trouble, kind, text, slows, on_gpu);

BUSBAR_RECORD(PeerProbe, host, result, stalled);

BUSBAR_RECORD(JobLink, host, state);

BUSBAR_RECORD(HostEvidence, host, reached, why_not, silence, net_bytes_per_s, troubles, probes, mtu, ever_reached,
              links, ranks);

void visit_fields(auto&& visit, RasEvidence& evidence) {
  // Fields that only `busbar diagnose` needs are not kept in a hang's report.
  [[maybe_unused]] auto& [host, answered, why_not, lines, dead_pids, lagging_ranks, silent, missing, lost, lagging_pids,
                          doubts, well, nccl_version] = evidence;
  BUSBAR_FIELDS(visit, evidence, host, answered, why_not, lines, dead_pids, lagging_ranks, lagging_pids);
}

/// The fields of a HangEvidence. The file has these two in different places.
void visit_occasion(auto&& visit, auto& evidence) {
  BUSBAR_FIELDS(visit, evidence, occasion, jobid, reporter, reporter_host, nprocs, limit_s, idle_s);
}

void visit_observed(auto&& visit, auto& evidence) { BUSBAR_FIELDS(visit, evidence, host_of_rank, hosts, ras); }

BUSBAR_RECORD(RankGroup, ranks, doing, blamed);

}  // namespace busbar
