#pragma once

#include "common/base/packed_fields.h"
#include "common/measure/plan.h"
#include "common/record/cell.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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
  double time_s = 0;                  ///< per operation, over ranks as -a says; --stat: the median
  double cpu_time_s = 0;              ///< host time to enqueue one operation; --stat: only with --nonblocking
  double algbw = 0;                   ///< [1e9 B/s]; NaN of one rank, which sends nothing
  double busbw = 0;                   ///< [1e9 B/s]; like algbw
  std::optional<std::int64_t> wrong;  ///< wrong elements over all ranks; null: not checked
  bool timed_verified = false;        ///< the buffers of the timed loop itself were compared too
  std::optional<IterationTimes> iterations;
  std::optional<CellStats> stats;  ///< --stat
};

/// Which part of a rank's memory was checked. In place both buffers are one: its guards are those of recv.
enum class WrongPart : std::uint8_t {
  timed_data,  ///< what the timed loop left
  checked_data,
  guard_before_recv,
  guard_after_recv,
  guard_before_send,
  guard_after_send,
};

/// Whether it is outside the elements, so that "of N elements" would mislead.
constexpr bool is_guard(WrongPart part) { return part >= WrongPart::guard_before_recv; }

/// Wrong data on one rank, with what was expected.
struct WrongRank {
  int rank = 0;
  std::string host;
  std::string device;     ///< "device 0 [core 3] host memory"
  bool in_place = false;  ///< the placement in which it was found, guards included
  WrongPart part = WrongPart::checked_data;
  std::uint64_t count = 0;
  std::uint64_t first = 0;  ///< element index in the receive part
  std::uint64_t last = 0;
  std::string got;
  std::string want;
  std::string cause;  ///< name(Cause)
  int suspect_rank = -1;
  std::string explanation;  ///< one phrase for people
};

BUSBAR_RECORD(WrongRank, rank, host, device, in_place, part, count, first, last, got, want, cause, suspect_rank,
              explanation);

/// "out-of-place recv (check)", "in-place (timed loop)", "guard after recv", "guard after buffer" in place. For people:
/// no code reads it.
constexpr std::string_view buffer_words(bool in_place, WrongPart part) {
  constexpr std::string_view kWords[][2] = {{"out-of-place recv (timed loop)", "in-place (timed loop)"},
                                            {"out-of-place recv (check)", "in-place (check)"},
                                            {"guard before recv", "guard before buffer"},
                                            {"guard after recv", "guard after buffer"},
                                            {"guard before send", "guard before send"},
                                            {"guard after send", "guard after send"}};
  return kWords[static_cast<int>(part)][in_place ? 1 : 0];
}

/// One finished row of the table.
struct Row {
  Case row_case;
  int cycle = 0;
  HalfResult out_of_place;
  HalfResult in_place;
  std::vector<WrongRank> wrong;
  std::optional<ShownAlgorithm> algorithm;  ///< --show-algo
  std::string note;
  std::string timestamp;  ///< "YYYY-MM-DD HH:MM:SS", local time when the row ended
};

/// A rank's location, for the device lines and JSON's config.devices.
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
  std::string backend;          ///< BackendTraits::name
  std::string library_version;  ///< "Open MPI 4.1.4"
  int library_version_code = 0;
  int header_version_code = 0;
  std::vector<std::string> args;
  std::vector<std::string> environment;  ///< "NAME=value", all of them: reports filter and mask
  std::string start_time;
  std::string launch_uuid;  ///< 128 random bits in hex: tells launches apart when their results are merged
  Config config;
  std::optional<MpiThreads> mpi_threads;  ///< as MPI granted it; config has the request. Null: not known
  int nranks = 0;
  std::optional<std::uint64_t> rotated_bytes;  ///< the most of a buffer (--buffers); null: does not apply
  std::vector<RankInfo> ranks;
  std::vector<std::string> remarks;  ///< our header lines: oversubscription, host memory, ranks per GPU, ...
  std::uint64_t seed = 0;            ///< --stat: the one used
  std::string cadence;               ///< --stat: "isolated", "stream"
  std::string estimand;              ///< --stat: a sample over the ranks, such as "last in to last out"
};

/// What disturbed a run of the statistical mode, over all hosts. Figures are the worst host's.
struct Disturbance {
  double foreign_cpu = 0;  ///< cores that other processes kept busy
  std::string foreign_host;
  double steal = 0;                       ///< cores that the hypervisor took
  double throttled_s = 0;                 ///< by the CPU's or the container's limits
  std::int64_t involuntary_switches = 0;  ///< of our own processes, per second
  double spin_spread = 1;                 ///< p90/p10 of the canaries over the run
  double copy_spread = 1;
  double spin_median_s = 0;  ///< slowest host's canaries: shows launches on a slower machine
  double copy_median_s = 0;
  std::vector<std::string> flags;  ///< "foreign_cpu: 0.31 cores on node3", "machine_drift: ..."; empty: undisturbed
};

/// What is known after the last row.
struct Summary {
  std::int64_t wrong = 0;              ///< wrong elements over all rows
  double mean_busbw = 0;               ///< over all halves that were measured [1e9 B/s]
  std::optional<bool> bandwidth_okay;  ///< compared with NCCL_TESTS_MIN_BW; null: no threshold
  std::vector<Backend::MemoryUse> memory;
  std::optional<Disturbance> disturbance;  ///< --stat
  std::vector<std::string> errors;
};

}  // namespace busbar
