#pragma once

#include "common/base/enum_words.h"
#include "common/watch/hang_evidence.h"

#include <array>
#include <string_view>

namespace busbar {

// The fields of a job's evidence, named once, in the order and with the names of hang-JOBID.json: for what writes it
// and reads it (hang_json.cpp), and for what the watchers tell each other (peer_messages.cpp). The bindings make a
// field that is added and forgotten here a compile error. Included by .cpp files alone.

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
  auto& [communicator, collective, count, dtype, op, root, nbytes, in_place] = call;
  visit("communicator", communicator);
  visit("collective", collective);
  visit("count", count);
  visit("dtype", dtype);
  visit("op", op);
  visit("root", root);
  visit("nbytes", nbytes);
  visit("in_place", in_place);
}

void visit_fields(auto&& visit, FinishedStep& step) {
  auto& [phase, collective, nbytes, last_entered, begun_age_s, ended_age_s] = step;
  visit("phase", phase);
  visit("collective", collective);
  visit("nbytes", nbytes);
  visit("last_entered", last_entered);
  visit("begun_age_s", begun_age_s);
  visit("ended_age_s", ended_age_s);
}

/// A rank's record and what /proc says of its process, as one object.
void visit_fields(auto&& visit, RankEvidence& evidence) {
  auto& [flight, process] = evidence;
  auto& [jobid, host, rank, nprocs, pid, pid_start, pid_namespace, command, started_unix_s, heartbeat_age_s, ending,
         phase, step, call, entered, step_first, step_calls, step_age_s, limit_s, idle_s, error, finished] = flight;
  auto& [life, state, wchan, tracer] = process;
  visit("rank", rank);
  visit("nprocs", nprocs);
  visit("host", host);
  visit("jobid", jobid);
  visit("pid", pid);
  visit("pid_start", pid_start);
  visit("pid_namespace", pid_namespace);
  visit("command", command);
  visit("started_unix_s", started_unix_s);
  visit("process", life);
  visit("state", state);
  visit("wchan", wchan);
  visit("tracer_pid", tracer);
  visit("heartbeat_age_s", heartbeat_age_s);
  visit("ending", ending);
  visit("phase", phase);
  visit("step", step);
  visit("call", call);
  visit("entered", entered);
  visit("step_first", step_first);
  visit("step_calls", step_calls);
  visit("step_age_s", step_age_s);
  visit("limit_s", limit_s);
  visit("idle_s", idle_s);
  visit("error", error);
  visit("finished", finished);
}

void visit_fields(auto&& visit, Trouble& trouble) {
  auto& [kind, text, slows, on_gpu] = trouble;
  visit("kind", kind);
  visit("text", text);
  visit("slows", slows);
  visit("on_gpu", on_gpu);
}

void visit_fields(auto&& visit, PeerProbe& probe) {
  auto& [host, result, stalled] = probe;
  visit("host", host);
  visit("result", result);
  visit("stalled", stalled);
}

void visit_fields(auto&& visit, JobLink& link) {
  auto& [host, state] = link;
  visit("host", host);
  visit("state", state);
}

void visit_fields(auto&& visit, HostEvidence& evidence) {
  auto& [host, reached, why_not, ranks, net_bytes_per_s, troubles, probes, mtu, silence, met, links] = evidence;
  visit("host", host);
  visit("reached", reached);
  visit("why_not", why_not);
  visit("silence", silence);
  visit("net_bytes_per_s", net_bytes_per_s);
  visit("troubles", troubles);
  visit("probes", probes);
  visit("mtu", mtu);
  visit("ever_reached", met);
  visit("links", links);
  visit("ranks", ranks);
}

void visit_fields(auto&& visit, RasEvidence& evidence) {
  // What only diagnose asks for is not kept in a hang's report.
  auto& [host, answered, why_not, lines, dead_pids, lagging_ranks, silent, missing, lost, lagging_pids, doubts, well,
         nccl_version] = evidence;
  static_cast<void>(silent), static_cast<void>(missing), static_cast<void>(lost);
  static_cast<void>(doubts), static_cast<void>(well), static_cast<void>(nccl_version);
  visit("host", host);
  visit("answered", answered);
  visit("why_not", why_not);
  visit("lines", lines);
  visit("dead_pids", dead_pids);
  visit("lagging_ranks", lagging_ranks);
  visit("lagging_pids", lagging_pids);
}

/// Of a HangEvidence. In the file these two stand in different places.
void visit_occasion(auto&& visit, auto& evidence) {
  visit("occasion", evidence.occasion);
  visit("jobid", evidence.jobid);
  visit("reporter", evidence.reporter);
  visit("reporter_host", evidence.reporter_host);
  visit("nprocs", evidence.nprocs);
  visit("limit_s", evidence.limit_s);
  visit("idle_s", evidence.idle_s);
}

void visit_observed(auto&& visit, auto& evidence) {
  visit("host_of_rank", evidence.host_of_rank);
  visit("hosts", evidence.hosts);
  visit("ras", evidence.ras);
}

void visit_fields(auto&& visit, RankGroup& group) {
  auto& [ranks, doing, blamed] = group;
  visit("ranks", ranks);
  visit("doing", doing);
  visit("blamed", blamed);
}

}  // namespace busbar
