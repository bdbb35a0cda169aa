#pragma once

// Jobs that do not go on, to be made sick one way or another.

#include "common/evidence/hang_evidence.h"

#include <cstddef>
#include <string>

namespace busbar {

/// A job whose ranks, `per_host` on each of node0, node1, ..., are all inside all_reduce #412 for 31 s: twelfth of the
/// twenty operations of their timed loop.
inline HangEvidence stuck_job(int nprocs, int per_host) {
  HangEvidence job;
  job.jobid = "job1";
  job.reporter = "rank 0 on node0";
  job.reporter_host = "node0";
  job.nprocs = nprocs;
  job.limit_s = 30;
  job.idle_s = 31;
  for (int rank = 0; rank < nprocs; ++rank) {
    const std::string host = "node" + std::to_string(rank / per_host);
    job.host_of_rank.push_back(host);
    if (rank % per_host == 0) {
      job.hosts.emplace_back();
      job.hosts.back().host = host;
      job.hosts.back().reached = true;
      job.hosts.back().net_bytes_per_s = 100;
    }
    RankEvidence evidence;
    FlightState& f = evidence.flight;
    f.jobid = "job1";
    f.host = host;
    f.rank = rank;
    f.nprocs = nprocs;
    f.pid = 4000 + rank;
    f.pid_start = 77;
    f.command = "all_reduce_perf";
    f.heartbeat_age_s = 0.3;
    f.phase = Phase::timed_loop;
    f.step = "timed loop";
    f.call = CalledOperation{0, "all_reduce", 1 << 24, "float", "sum", -1, 1 << 26, false};
    f.entered = 412;
    f.step_first = 400;
    f.step_calls = 20;
    f.step_age_s = 40;
    f.limit_s = 30;
    f.idle_s = 31;
    evidence.process = {ProcessState::Life::alive, 'S', "poll_schedule_timeout"};
    job.hosts.back().ranks.push_back(evidence);
  }
  return job;
}

inline RankEvidence& rank_of(HangEvidence& job, int rank) {
  for (HostEvidence& host : job.hosts) {
    for (RankEvidence& evidence : host.ranks) {
      if (evidence.flight.rank == rank) return evidence;
    }
  }
  return job.hosts.at(0).ranks.at(0);
}

template <class Change>
void for_all_ranks(HangEvidence& job, Change change) {
  for (HostEvidence& host : job.hosts) {
    for (RankEvidence& evidence : host.ranks) change(evidence);
  }
}

/// As if killed `age_s` ago.
inline void kill_rank(RankEvidence& rank, double age_s) {
  rank.process = {ProcessState::Life::gone, '?', ""};
  rank.flight.heartbeat_age_s = age_s;
}

inline void stop_rank(RankEvidence& rank) {
  rank.process.state = 'T';
  rank.flight.heartbeat_age_s = 31;
}

/// Into a step without operations.
inline void put_into(RankEvidence& rank, Phase phase, std::uint64_t entered) {
  rank.flight.phase = phase;
  rank.flight.step.clear();
  rank.flight.call.reset();
  rank.flight.entered = rank.flight.step_first = entered;
  rank.flight.step_calls = 0;
}

inline void lose_host(HangEvidence& job, std::size_t host, Silence silence, const std::string& why) {
  job.hosts.at(host).reached = false;
  job.hosts.at(host).silence = silence;
  job.hosts.at(host).why_not = why;
  job.hosts.at(host).ranks.clear();
}

/// What those that were reached know of the job's connections to a host.
inline void set_links(HangEvidence& job, std::size_t to, JobLink::State state) {
  for (HostEvidence& from : job.hosts) {
    if (from.reached) from.links.push_back({job.hosts.at(to).host, state});
  }
}

}  // namespace busbar
