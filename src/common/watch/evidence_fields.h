#pragma once

#include "common/base/enum_words.h"
#include "common/base/packed_fields.h"
#include "common/watch/hang_evidence.h"

#include <array>
#include <string_view>

namespace busbar {

// The fields of a job's evidence, named once, in the order and with the names of hang-JOBID.json: for what writes it
// and reads it (hang_json.cpp), and for what the watchers tell each other (peer_messages.cpp). The bindings make
// a field that is added and forgotten here a compile error. Included by .cpp files alone.

// The words are part of the file's format, so none of them changes.
inline constexpr std::array<std::string_view, 4> kOccasionWords{"limit", "slow_limit", "terminated", "files"};
inline constexpr std::array<std::string_view, 3> kLifeWords{"unknown", "alive", "gone"};
inline constexpr std::array<std::string_view, 4> kTroubleWords{"hardware", "resource", "launcher", "notice"};
inline constexpr std::array<std::string_view, 6> kSilenceWords{"none",     "unresponsive", "refused",
                                                               "no_route", "no_answer",    "unreadable"};
inline constexpr std::array<std::string_view, 5> kProbeWords{"ok", "refused", "no_route", "timed_out", "large_lost"};
inline constexpr std::array<std::string_view, 3> kLinkWords{"standing", "stalled", "closed"};
inline constexpr std::array<std::string_view, 5> kEndingWords{"none", "good", "failed", "hung", "signalled"};
inline constexpr std::array<std::string_view, 13> kPhaseWords{
    "starting", "mpi_init", "initialization", "allocating",   "preparing", "timed_loop", "checking",
    "agreeing", "output",   "finishing",      "mpi_finalize", "resting",   "ended"};
static_assert(kPhaseWords.size() == static_cast<std::size_t>(Phase::ended) + 1);
static_assert(kEndingWords.size() == static_cast<std::size_t>(Ending::signalled) + 1);
static_assert(kSilenceWords.size() == static_cast<std::size_t>(Silence::unreadable) + 1);
static_assert(kProbeWords.size() == static_cast<std::size_t>(PeerProbe::Result::large_lost) + 1);
static_assert(kLinkWords.size() == static_cast<std::size_t>(JobLink::State::closed) + 1);
static_assert(kTroubleWords.size() == static_cast<std::size_t>(Trouble::Kind::notice) + 1);
static_assert(kLifeWords.size() == static_cast<std::size_t>(ProcessState::Life::gone) + 1);
static_assert(kOccasionWords.size() == static_cast<std::size_t>(HangEvidence::Occasion::files) + 1);

constexpr const auto& words_of(HangEvidence::Occasion) { return kOccasionWords; }
constexpr const auto& words_of(ProcessState::Life) { return kLifeWords; }
constexpr const auto& words_of(Trouble::Kind) { return kTroubleWords; }
constexpr const auto& words_of(Silence) { return kSilenceWords; }
constexpr const auto& words_of(PeerProbe::Result) { return kProbeWords; }
constexpr const auto& words_of(JobLink::State) { return kLinkWords; }
constexpr const auto& words_of(Ending) { return kEndingWords; }
constexpr const auto& words_of(Phase) { return kPhaseWords; }

void visit_fields(auto&& visit, CalledOperation& call) {
  BUSBAR_ALL_FIELDS(visit, call, communicator, collective, count, dtype, op, root, nbytes, in_place);
}

void visit_fields(auto&& visit, FinishedStep& step) {
  BUSBAR_ALL_FIELDS(visit, step, phase, collective, nbytes, last_entered, begun_age_s, ended_age_s);
}

/// A rank's record and what /proc says of its process, as one object.
void visit_fields(auto&& visit, RankEvidence& evidence) {
  auto& [flight, process] = evidence;
  [[maybe_unused]] auto& [life, state, wchan, tracer] = process;
  [[maybe_unused]] auto& [jobid, host, rank, nprocs, pid, pid_start, pid_namespace, command, started_unix_s,
                          heartbeat_age_s, ending, phase, step, call, entered, step_first, step_calls, step_age_s,
                          limit_s, idle_s, error, finished] = flight;
  BUSBAR_FIELDS(visit, flight, rank, nprocs, host, jobid, pid, pid_start, pid_namespace, command, started_unix_s);
  visit("process", process.life);
  BUSBAR_FIELDS(visit, process, state, wchan);
  visit("tracer_pid", process.tracer);
  BUSBAR_FIELDS(visit, flight, heartbeat_age_s, ending, phase, step, call, entered, step_first, step_calls, step_age_s,
                limit_s, idle_s, error, finished);
}

void visit_fields(auto&& visit, Trouble& trouble) { BUSBAR_ALL_FIELDS(visit, trouble, kind, text, slows, on_gpu); }

void visit_fields(auto&& visit, PeerProbe& probe) { BUSBAR_ALL_FIELDS(visit, probe, host, result, stalled); }

void visit_fields(auto&& visit, JobLink& link) { BUSBAR_ALL_FIELDS(visit, link, host, state); }

void visit_fields(auto&& visit, HostEvidence& evidence) {
  BUSBAR_ALL_FIELDS(visit, evidence, host, reached, why_not, silence, net_bytes_per_s, troubles, probes, mtu,
                    ever_reached, links, ranks);
}

void visit_fields(auto&& visit, RasEvidence& evidence) {
  // What only diagnose asks for is not kept in a hang's report.
  [[maybe_unused]] auto& [host, answered, why_not, lines, dead_pids, lagging_ranks, silent, missing, lost, lagging_pids,
                          doubts, well, nccl_version] = evidence;
  BUSBAR_FIELDS(visit, evidence, host, answered, why_not, lines, dead_pids, lagging_ranks, lagging_pids);
}

/// Of a HangEvidence. In the file these two stand in different places.
void visit_occasion(auto&& visit, auto& evidence) {
  BUSBAR_FIELDS(visit, evidence, occasion, jobid, reporter, reporter_host, nprocs, limit_s, idle_s);
}

void visit_observed(auto&& visit, auto& evidence) { BUSBAR_FIELDS(visit, evidence, host_of_rank, hosts, ras); }

void visit_fields(auto&& visit, RankGroup& group) { BUSBAR_ALL_FIELDS(visit, group, ranks, doing, blamed); }

}  // namespace busbar
