#pragma once

#include "common/backends/observer.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace busbar {

/// A finished step. Ages count back from the moment of reading [s].
struct FinishedStep {
  Phase phase = Phase::starting;
  std::string collective;  ///< empty: no operation
  std::uint64_t nbytes = 0;
  std::uint64_t last_entered = 0;
  double begun_age_s = 0;
  double ended_age_s = 0;
};

/// How a process left.
enum class Ending : std::uint8_t { none, good, failed, hung, signalled };

/// One process's flight record, read and decoded. Operations are numbered from 1 over all communicators of a process;
/// `entered` is the number of the last one that it began, whether it has left it or not.
struct FlightState {
  std::string jobid;
  std::string host;
  int rank = 0;    ///< of the process in the job
  int nprocs = 0;  ///< of the job; 0: not known yet
  std::int64_t pid = 0;
  std::uint64_t pid_start = 0;      ///< clock ticks, field 22 of /proc/PID/stat: detects a reused pid
  std::uint64_t pid_namespace = 0;  ///< its inode, in which `pid` counts; 0: not known
  std::string command;
  std::int64_t started_unix_s = 0;
  double heartbeat_age_s = 0;
  std::int64_t beat_unix_s = 0;  ///< of the last beat [s since 1970]
  Ending ending = Ending::none;

  Phase phase = Phase::starting;
  std::string step;  ///< for people
  std::optional<CalledOperation> call;
  std::uint64_t entered = 0;
  std::uint64_t step_first = 0;  ///< `entered` when the step began
  std::uint64_t step_calls = 0;  ///< operations that the step makes; 0: not known
  double step_age_s = 0;
  double limit_s = 0;                  ///< of the step; 0: none
  double idle_s = 0;                   ///< since its step or `entered` last changed, as its own watcher saw it
  std::string error;                   ///< the library's asynchronous error; empty: none
  std::vector<FinishedStep> finished;  ///< the newest last, at most 16
};

}  // namespace busbar
