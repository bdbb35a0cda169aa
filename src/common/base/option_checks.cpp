#include "common/base/error.h"
#include "common/base/options.h"
#include "common/base/units.h"

#include <fmt/format.h>

#include <climits>

namespace busbar {
namespace {

/// Short enough to be typed: 67108864 as 64M; bytes where no unit divides it.
std::string typed_size(std::uint64_t nbytes) {
  static constexpr std::string_view kUnits = "TGMK";
  for (std::size_t i = 0; i < kUnits.size(); ++i) {
    const int shift = 40 - 10 * static_cast<int>(i);
    if (nbytes != 0 && nbytes % (1ull << shift) == 0) return fmt::format("{}{}", nbytes >> shift, kUnits[i]);
  }
  return std::to_string(nbytes);
}

void require(bool good, const std::string& text) {
  if (!good) throw Error(ExitCode::bad_config, text);
}

void check_range(const Config& config) {
  if (config.minbytes <= config.maxbytes) return;
  const std::string first = typed_size(config.minbytes);
  const std::string last = typed_size(config.maxbytes);
  const Config defaults;
  if (config.maxbytes == defaults.maxbytes) {
    throw Error(ExitCode::bad_config,
                fmt::format("-b {} alone fails because -e defaults to {}: add -e {}", first, last, first));
  }
  if (config.minbytes == defaults.minbytes) {
    throw Error(ExitCode::bad_config,
                fmt::format("-e {} alone fails because -b defaults to {}: add -b {}", last, first, last));
  }
  throw Error(ExitCode::bad_config,
              fmt::format("the first size (-b {}) is above the last (-e {}): swap them or raise -e", first, last));
}

/// The statistical mode has its own loop, and its knobs mean nothing without it.
void check_stat(const Config& config) {
  const Config defaults;
  const auto needs_stat = [&](bool set, std::string_view option) {
    require(config.stat || !set, fmt::format("{} needs --stat: add it", option));
  };
  needs_stat(config.rel_ci != defaults.rel_ci, "--rel-ci");
  needs_stat(config.min_time_s != defaults.min_time_s, "--min-time");
  needs_stat(config.max_time_s != defaults.max_time_s, "--max-time");
  needs_stat(config.cell_time_s != defaults.cell_time_s, "--cell-time");
  needs_stat(config.epochs != defaults.epochs, "--epochs");
  needs_stat(config.seed != defaults.seed, "--seed");
  needs_stat(config.cadence != defaults.cadence, "--cadence");
  needs_stat(config.per_rank, "--per-rank");
  needs_stat(config.skew, "--skew");
  needs_stat(!config.samples_file.empty(), "--samples");
  require(!config.show_prediction || config.show_algo, "--show-prediction needs --show-algo: add it");
  if (!config.stat) return;
  const auto refuse = [](bool set, std::string_view option, std::string_view why) {
    require(!set, fmt::format("{} does not work with --stat: {}; leave out one of them", option, why));
  };
  refuse(config.agg_iters > 1, "-m", "a sample is one operation");
  refuse(config.cudagraph > 0, "-G", "a graph has no points between its iterations");
  refuse(config.blocking != 0, "-z", "--cadence says how operations follow each other");
  refuse(config.per_iter_timing, "-I", "every operation is a sample already");
  refuse(config.report_cputime, "-C", "it times operations to their end");
  refuse(config.run_cycles != 1, "-N", "it visits each row as often as the interval needs");
  require(config.min_time_s <= config.cell_time_s, "--min-time is above --cell-time: lower one or raise the other");
}

}  // namespace

void validate(const Config& config) {
  check_range(config);
  require(config.iters <= INT_MAX / config.agg_iters,
          fmt::format("-n {} times -m {} is above {}: lower one of them", config.iters, config.agg_iters, INT_MAX));
  require(config.per_iter_skip == 0 || config.per_iter_timing,
          fmt::format("-K {} needs -I 1: it leaves iterations out of the figures that -I adds", config.per_iter_skip));
  require(config.per_iter_skip < config.iters,
          fmt::format("-K {} leaves none of the {} iterations (-n): lower -K below {}", config.per_iter_skip,
                      config.iters, config.iters));
  require(!config.per_iter_timing || config.cudagraph == 0,
          "-I 1 does not work with -G: a graph has no points between its iterations; leave out one of them");
  require(config.blocking != 3 || config.cudagraph == 0,
          "-z 3 does not work with -G: a barrier between iterations cannot be in a graph; leave out one of them");
  require(!config.inject || config.cudagraph == 0,
          "--inject does not work with -G: a graph cannot change between its operations; leave out one of them");
  require(config.ranks_per_gpu == 1 || (config.nthreads == 1 && config.ngpus == 1),
          "--ranks-per-gpu needs one rank per process: leave out -t and -g and start more processes");
  require(config.csv.empty() || config.csv != config.output_file, "--csv and -J name the same file");
  check_stat(config);
  if (config.device_implementation == 0) return;
  require(config.local_register == 2,
          fmt::format("-D {} needs symmetric windows: add -R 2", config.device_implementation));
  throw Error(ExitCode::not_possible, "device API kernels (-D) are not implemented yet: leave out -D");
}

}  // namespace busbar
