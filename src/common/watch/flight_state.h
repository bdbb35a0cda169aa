#pragma once

#include "common/base/enum_words.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// What a process is at, coarsely; `step` says it in words.
enum class Phase : std::uint8_t {
  starting,
  mpi_init,
  initialization,  ///< communicators, agreement on the plan
  allocating,
  preparing,   ///< data are written
  timed_loop,  ///< warm-up included
  checking,    ///< an untimed operation and the comparison of its data
  agreeing,    ///< control traffic between the processes
  output,
  finishing,
  mpi_finalize,
  resting,  ///< nothing that could hang
  ended,
};

/// "timed loop".
inline constexpr std::array<std::string_view, 13> kPhaseNames{
    "starting",     "MPI_Init", "initialization", "allocation", "preparation of data",
    "timed loop",   "check",    "agreement",      "output",     "end of the run",
    "MPI_Finalize", "rest",     "ended"};
constexpr std::string_view name(Phase phase) { return word(kPhaseNames, phase); }

/// The arguments with which this process calls the operations of its step.
struct CalledOperation {
  int communicator = 0;  ///< 0, or the number of compare's variant, of accept's cell in turn
  std::string collective;
  std::uint64_t count = 0;  ///< elements, as the API counts them
  std::string dtype;
  std::string op;  ///< "none" where there is none
  int root = -1;   ///< -1: none
  std::uint64_t nbytes = 0;
  bool in_place = false;

  bool operator==(const CalledOperation&) const = default;
};

/// A step that is over. Ages count back from the moment of reading [s].
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
/// `entered` is the number of the last one that it began: the one it is in, or that it left last.
struct FlightState {
  std::string jobid;
  std::string host;
  int rank = 0;    ///< of the process in the job
  int nprocs = 0;  ///< of the job; 0: not known yet
  std::int64_t pid = 0;
  std::uint64_t pid_start = 0;      ///< clock ticks, field 22 of /proc/PID/stat: tells a reused pid
  std::uint64_t pid_namespace = 0;  ///< its inode, in which `pid` counts; 0: not known
  std::string command;
  std::int64_t started_unix_s = 0;
  double heartbeat_age_s = 0;
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
