#pragma once

#include "common/base/config.h"
#include "common/record/cell.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace busbar {

/// A bound with two steps: worse than `warn` is WARN, worse than `fail` is FAIL.
struct Bound {
  std::optional<double> warn;
  std::optional<double> fail;
};

/// The criteria of one cell; each of its sizes and placements is judged separately, never a mean over sizes.
struct Criteria {
  std::optional<Bound> busbw;        ///< at least [1e9 B/s]
  bool busbw_expected = false;       ///< `busbw: expected`: at least 0.9 (WARN) and 0.8 (FAIL) of the expected value
  std::optional<Bound> of_ceiling;   ///< at least this share of the ceiling for the algorithm that ran
  double ceiling_busbw = 0;          ///< [1e9 B/s] that ceiling, if the plan sets it; 0: the platform's
  std::optional<Bound> latency;      ///< at most [s]
  bool wrong = true;                 ///< no wrong element
  std::optional<Bound> time_spread;  ///< at most: robust spread (1.4826 MAD / median) of the medians over time
  std::optional<Bound> dips;         ///< at most: share of the epochs slower than 1.5 times the median
  std::optional<Bound> drift;        ///< at most: how much slower the last third of the repetitions is than the first
  std::optional<Bound> host_spread;  ///< at most: how far a host may be below the hosts' median, as a share
  std::optional<Bound> rank_spread;  ///< at most: how late a rank is beyond the ranks' median, as a share of the time
  bool counters = true;              ///< no error counter moved
};

/// The memory for which a cell makes sense: a size that fills a GPU's links takes minutes on host memory.
enum class CellMemory : std::uint8_t { any, gpu, host };

/// One line of the plan: a collective with its options at some sizes.
struct PlanCell {
  std::string name;  ///< unique; by default "all_reduce", "all_reduce-2"
  const Collective* collective = nullptr;
  std::vector<Stage> stages;
  CellMemory memory = CellMemory::any;  ///< otherwise it is skipped, with that reason
  Config config;  ///< sizes, dtype, op, root, checks, time: the long options' names, --stat always on
  std::vector<std::pair<std::string, std::string>> environment;
  Criteria criteria;
  int line = 0;  ///< in the file
};

/// Three checks, one minute and two minutes apart, and their measurements.
inline constexpr double kLocateLooks = 240;

/// An acceptance plan, as in its file. Read back from a result, it only has its file, text, title and digest.
struct AcceptPlan {
  std::string file;
  std::string text;  ///< the file, for the report
  std::string title;
  std::uint64_t digest = 0;           ///< of the keys and values in the text, so that --resume only continues its own
  std::string platform;               ///< "auto", a name, or empty: none expected
  std::string baseline;               ///< file of an earlier run; empty: none
  Bound baseline_margin{0.05, 0.10};  ///< at most: how much slower than the baseline; launches vary
  std::optional<Bound> init;          ///< at most: until the job's communicator was created and used once [s]
  bool needs_gpus = false;            ///< fails on host memory
  std::vector<Stage> stages;          ///< in the order in which they run
  std::vector<PlanCell> cells;
  double max_time_s = 0;       ///< of the whole run; 0: no bound
  double repeat_for_s = 0;     ///< > 0: burn-in: repeats the cells for so long
  double stage_timeout_s = 0;  ///< per launch with --launch; 0: estimated
  bool locate_on_fail = true;
  /// [s] In addition to max_time_s, for further checks of a host that the pairs find slow; a quarter before the second,
  /// half before the third. 0: no checks, so that the pairs name it with a WARN.
  double locate_looks_s = kLocateLooks;
  bool keeps_results = true;  ///< busbar-accept.json if no -J names a file

  const std::string& title_or_file() const { return title.empty() ? file : title; }
};

}  // namespace busbar
