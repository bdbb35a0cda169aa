#include "common/watch/limits.h"

#include <algorithm>
#include <limits>

namespace busbar {

double start_limit_s(int nprocs, double asked_s) {
  if (asked_s == kAutomaticLimit) return std::max(120.0, 30.0 + 0.1 * nprocs);
  return asked_s == 0 ? 0 : std::max(30.0, asked_s);
}

double output_limit_s(double asked_s) { return asked_s == 0 ? 0 : std::max(kOutputLimit, asked_s); }

double step_limit_s(double expected_s) { return std::max(30.0, 20.0 * expected_s); }

double slow_limit_s(double limit_s, double step_age_s, double done, double total) {
  const double projected_s = done > 0 && total >= done ? step_age_s * total / done : 0;
  return std::max(10 * limit_s, 2 * projected_s);
}

namespace {

/// A watcher beats every half second; a starved host may skip some.
constexpr double kFreshHeartbeat = 5;     // [s]
constexpr double kMoving = 256.0 * 1024;  // [B/s] keep-alives, heartbeats and name services stay far below

template <class Visit>
void for_each_rank(const HangEvidence& evidence, const Visit& visit) {
  for (const HostEvidence& host : evidence.hosts)
    for (const RankEvidence& rank : host.ranks) visit(rank);
}

/// Neither gone nor stopped, as far as other processes can see.
bool is_there(const RankEvidence& rank) {
  if (rank.process.life == ProcessState::Life::gone) return false;
  if (rank.process.state == 'T' || rank.process.state == 't' || rank.process.state == 'Z') return false;
  return rank.flight.ending == Ending::none;
}

bool beats(const RankEvidence& rank) { return rank.flight.heartbeat_age_s < kFreshHeartbeat; }

}  // namespace

bool is_lively(const RankEvidence& rank) { return is_there(rank) && beats(rank); }

bool can_move(const RankEvidence& rank) { return is_there(rank) && (beats(rank) || rank.process.state == 'R'); }

bool all_can_move(const HangEvidence& evidence) {
  bool all = true;
  for_each_rank(evidence, [&](const RankEvidence& rank) { all = all && can_move(rank); });
  return all;
}

std::optional<int> host_reader(std::span<const RankEvidence> ranks) {
  std::optional<int> lowest;
  for (const RankEvidence& rank : ranks)
    if (is_lively(rank) && (!lowest || rank.flight.rank < *lowest)) lowest = rank.flight.rank;
  return lowest;
}

double job_idle_s(const HangEvidence& evidence) {
  double least = std::numeric_limits<double>::infinity();
  for_each_rank(evidence, [&](const RankEvidence& rank) { least = std::min(least, rank.flight.idle_s); });
  return least == std::numeric_limits<double>::infinity() ? 0 : least;
}

double patience_s(const HangEvidence& evidence) {
  double longest = -std::numeric_limits<double>::infinity();
  bool watched = false;
  for_each_rank(evidence, [&](const RankEvidence& rank) {
    const FlightState& flight = rank.flight;
    if (!can_move(rank) || flight.limit_s <= 0) return;
    watched = true;
    longest = std::max(longest, flight.limit_s - flight.idle_s);
  });
  return watched ? longest : 0;
}

double shortest_limit_s(const HangEvidence& evidence) {
  double least = 0;
  for_each_rank(evidence, [&](const RankEvidence& rank) {
    const double limit_s = rank.flight.limit_s;
    if (can_move(rank) && limit_s > 0 && (least == 0 || limit_s < least)) least = limit_s;
  });
  return least;
}

const RankEvidence* traced(const HangEvidence& evidence) {
  const RankEvidence* found = nullptr;
  for_each_rank(evidence, [&](const RankEvidence& rank) {
    const bool is = rank.process.tracer != 0 && rank.process.life == ProcessState::Life::alive;
    if (is && (found == nullptr || rank.flight.rank < found->flight.rank)) found = &rank;
  });
  return found;
}

const RankEvidence* writer(const HangEvidence& evidence) {
  const RankEvidence* found = nullptr;
  for_each_rank(evidence, [&](const RankEvidence& rank) {
    const FlightState& flight = rank.flight;
    const bool writes = flight.rank == 0 && (flight.phase == Phase::output || flight.phase == Phase::resting);
    const bool may = can_move(rank) && flight.limit_s > 0 && flight.idle_s < flight.limit_s;
    if (writes && may && (found == nullptr || flight.idle_s > found->flight.idle_s)) found = &rank;
  });
  return found;
}

bool network_moves(const HangEvidence& evidence) {
  return all_can_move(evidence) &&
         std::ranges::any_of(evidence.hosts, [](const HostEvidence& host) { return host.net_bytes_per_s > kMoving; });
}

}  // namespace busbar
