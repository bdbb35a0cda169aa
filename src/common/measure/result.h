#pragma once

#include "common/measure/plan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace busbar {

/// Order statistics of the per-iteration times (-I), computed as nccl-tests does.
struct IterationTimes {
  int skipped = 0;
  std::vector<double> times_s;                               ///< every iteration, the largest over the processes
  std::vector<std::vector<double>> per_process_max_times_s;  ///< empty for one process
};

/// One placement of one row.
struct HalfResult {
  bool supported = true;              ///< false: the collective has no such placement (printed 0.00, N/A)
  double time_s = 0;                  ///< of one operation, over ranks as -a says
  double cpu_time_s = 0;              ///< host time to enqueue one operation
  double algbw = 0;                   ///< [1e9 B/s]
  double busbw = 0;                   ///< [1e9 B/s]
  std::optional<std::int64_t> wrong;  ///< wrong elements over all ranks; nothing: not checked
  bool timed_verified = false;        ///< the buffers of the timed loop itself were compared too
  std::optional<IterationTimes> iterations;
};

/// What one rank held where it should have held something else.
struct WrongRank {
  int rank = 0;
  std::string host;
  std::string device;  ///< "device 0 [core 3] host memory"
  std::string buffer;  ///< "out-of-place recv", "in-place", "... (timed loop)", "guard after recv"
  std::uint64_t count = 0;
  std::uint64_t first = 0;  ///< element index in the receive part
  std::uint64_t last = 0;
  std::string got;
  std::string want;
  std::string cause;  ///< name(Cause)
  int suspect_rank = -1;
  std::string explanation;  ///< one phrase for people
};

/// One finished row of the table.
struct Row {
  Case row_case;
  int cycle = 0;
  HalfResult out_of_place;
  HalfResult in_place;
  std::vector<WrongRank> wrong;
  std::string note;
  std::string timestamp;  ///< "YYYY-MM-DD HH:MM:SS", local time when the row ended
};

/// A rank's place, for the device lines and JSON's config.devices.
struct RankInfo {
  int rank = 0;
  int group = 0;
  int pid = 0;
  std::string hostname;
  DeviceInfo device;
};

/// What is known before the first row.
struct RunInfo {
  std::string program;          ///< "all_reduce_perf"
  std::string version;          ///< of this suite
  std::string backend;          ///< "mpi" or "nccl"
  std::string library_version;  ///< "Open MPI 4.1.4"
  int library_version_code = 0;
  std::vector<std::string> args;
  std::vector<std::string> environment;  ///< "NAME=value", all of them: reports filter and mask
  std::string start_time;
  Config config;
  int nranks = 0;
  std::vector<RankInfo> ranks;
  std::vector<std::string> remarks;  ///< header lines of ours: oversubscription, host memory, ranks per GPU, ...
};

/// What is known after the last row.
struct Summary {
  std::int64_t wrong = 0;              ///< wrong elements over all rows
  double mean_busbw = 0;               ///< over all halves that were measured [1e9 B/s]
  std::optional<bool> bandwidth_okay;  ///< against NCCL_TESTS_MIN_BW; nothing: no threshold
  std::vector<Backend::MemoryUse> memory;
  std::vector<std::string> errors;
};

}  // namespace busbar
