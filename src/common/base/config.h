#pragma once

#include "collectives/collective.h"
#include "common/base/backend_list.h"
#include "common/base/enum_words.h"
#include "common/base/injection.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace busbar {

/// `--placement`: which halves of a row are measured.
enum class Placements : std::uint8_t { out, in, both };
constexpr EnumWords<3> words_of(Placements) { return {"out", "in", "both"}; }

/// `--buffers`: rotate: each call takes the next of the messages that the buffer holds, as in nccl-tests; reuse: all
/// take the same one, as in OSU and IMB.
enum class BufferUse : std::uint8_t { rotate, reuse };
constexpr EnumWords<2> words_of(BufferUse) { return {"rotate", "reuse"}; }

/// `-a`: how the ranks' times become one.
enum class Average : std::uint8_t { rank0 = 0, mean = 1, min = 2, max = 3 };

/// `--cadence`: how calls follow each other in --stat. Isolated: each after our barrier; stream: back to back.
enum class Cadence : std::uint8_t { automatic, isolated, stream };
constexpr EnumWords<3> words_of(Cadence) { return {"auto", "isolated", "stream"}; }

/// `--mpi-threads`: the thread level that MPI is asked for, MPI_THREAD_SINGLE to MPI_THREAD_MULTIPLE.
enum class MpiThreads : std::uint8_t { single, funneled, serialized, multiple };
constexpr EnumWords<4> words_of(MpiThreads) { return {"single", "funneled", "serialized", "multiple"}; }

/// `--launcher`: which launcher's variables say who this process is.
enum class LauncherChoice : std::uint8_t { automatic, mpi, env, slurm, k8s, none };
constexpr EnumWords<6> words_of(LauncherChoice) { return {"auto", "mpi", "env", "slurm", "k8s", "none"}; }

/// `--pattern` of pingpong.
constexpr EnumWords<3> words_of(PingpongPattern) { return {"latency", "oneway", "both"}; }

/// `--pairs` of pingpong: rank i with i + n/2, or every rank with every other in turn, a row per round.
enum class PairChoice : std::uint8_t { half, all };
constexpr EnumWords<2> words_of(PairChoice) { return {"half", "all"}; }

/// Everything the user can set, validated. Names are those of the long options; defaults are nccl-tests'.
struct Config {
  int nthreads = 1;
  int ngpus = 1;
  std::uint64_t minbytes = 32ull << 20;  ///< [bytes]
  std::uint64_t maxbytes = 32ull << 20;  ///< [bytes], inclusive
  std::uint64_t stepbytes = 1ull << 20;  ///< [bytes], used when stepfactor <= 1
  double stepfactor = 1;
  std::vector<std::uint64_t> sizes;  ///< [bytes]; not empty: instead of minbytes .. maxbytes
  int iters = 20;
  int agg_iters = 1;
  int warmup_iters = 1;
  int run_cycles = 1;  ///< 0: for ever
  Average average = Average::mean;
  bool per_iter_timing = false;
  int per_iter_skip = 0;
  bool parallel_init = false;
  int check = 1;  ///< verification iterations per row; 0: off
  std::vector<Op> ops{Op::sum};
  std::vector<DType> dtypes{DType::float32};
  bool all_roots = false;
  int root = 0;
  int blocking = 0;
  bool stream_null = false;
  double timeout_s = -1;  ///< of a step without progress; -1: chosen by step, 0: none
  int cudagraph = 0;
  bool report_cputime = false;
  bool report_timestamps = false;
  std::string output_file;  ///< JSON; empty: none
  int local_register = 0;
  std::optional<int> cta_policy;
  int device_implementation = 0;
  int device_cta_count = 16;
  bool memory_report = false;
  int unalign = 0;  ///< [elements]

  BackendChoice backend = BackendChoice::automatic;
  Placements placement = Placements::both;
  BufferUse buffers = BufferUse::rotate;
  bool nonblocking = false;  ///< MPI's nonblocking functions start calls, which finish before the next
  MpiThreads mpi_threads = MpiThreads::single;
  LauncherChoice launcher = LauncherChoice::automatic;
  std::string meet_key;  ///< file with the key of processes that meet without MPI; empty: none
  PingpongPattern pattern = PingpongPattern::latency;  ///< pingpong only, as the next two
  int window = 64;                                     ///< messages under way at once
  PairChoice pairs = PairChoice::half;
  std::string csv;      ///< file; empty: none
  std::string history;  ///< SQLite file; empty: none
  bool fail_on_skip = false;
  bool dry_run = false;
  bool topology = false;  ///< show where each process is bound, and each GPU's and NIC's locality
  int ranks_per_gpu = 1;
  std::string config_file;
  std::optional<Injection> inject;  ///< breaks one rank on purpose
  bool paranoid = false;            ///< ranks compare their calls before each case

  bool stat = false;        ///< the statistical mode; the following settings need it
  double rel_ci = 0.01;     ///< half width of the median's interval over the median at which a cell is done
  double min_time_s = 0;    ///< a cell is timed at least this long before it may be done
  double max_time_s = 120;  ///< limit of the whole run
  double cell_time_s = 20;  ///< limit of one placement of one row
  int epochs = 400;         ///< at most this many per cell
  std::uint64_t seed = 0;   ///< of the order of cells; 0: drawn at start
  Cadence cadence = Cadence::automatic;
  bool per_rank = false;         ///< a table of every rank's own time and lateness
  bool skew = false;             ///< the entry spread of every cell
  std::string samples_file;      ///< raw samples as CSV; empty: none
  bool show_algo = false;        ///< algorithm, protocol and channels of every row
  bool show_prediction = false;  ///< the library's own prediction next to the measured time

  /// Not set by users: reads NCCL's log for how communicators are created (comm_perf).
  bool init_phases = false;

  /// From NCCL_TESTS_*, read for compatibility.
  std::optional<int> base_device;
  std::optional<double> min_bw;  ///< [GB/s]
  std::string split;             ///< "MOD 2", ... ; empty: none
  std::string traffic_file;      ///< alltoallv
  double traffic_scale = 1.0;
  double traffic_spread = 1.0;
  bool traffic_summary = false;  ///< each rank's share of alltoallv's rows

  bool operator==(const Config&) const = default;
};

}  // namespace busbar
