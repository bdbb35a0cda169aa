#pragma once

#include "common/base/enum_words.h"
#include "common/statistics/interval.h"
#include "common/statistics/stop_rule.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// What a stage of accept runs on.
enum class Stage : std::uint8_t {
  doctor,    ///< every node looked at
  per_host,  ///< every host by itself, all at once
  pairs,     ///< hosts two by two: `locate`
  whole,     ///< all ranks
};
inline constexpr std::array<std::string_view, 4> kStageWords{"doctor", "per-host", "pairs", "whole"};
static_assert(kStageWords[static_cast<std::size_t>(Stage::whole)] == "whole");
constexpr const char* name(Stage stage) { return word(kStageWords, stage).data(); }

/// One size and placement of a plan's cell, measured on one group of ranks.
struct MeasuredCell {
  std::string cell;  ///< PlanCell::name
  Stage stage = Stage::whole;
  std::string scope;  ///< "all", or the host's name in per-host
  std::string collective;
  std::string dtype;
  std::string op;  ///< "none" where nothing is reduced
  std::uint64_t nbytes = 0;
  bool in_place = false;
  int nranks = 0;
  int nhosts = 0;
  int repetition = 0;  ///< of repeat_for; the same cell again is one more of these
  double median_s = 0;
  std::optional<Interval> interval_s;
  double relative_half_width = 0;
  std::vector<double> epoch_medians_s;  ///< in time order
  double busbw = 0;                     ///< [1e9 B/s], of the median
  std::optional<Interval> busbw_interval;
  std::optional<std::int64_t> wrong;     ///< nothing: not checked
  std::vector<std::string> wrong_texts;  ///< "rank 3 on node1: ..." as the benchmarks explain it
  std::vector<int> wrong_ranks;          ///< whom the data blame
  std::string algorithm;                 ///< "RING", "NVLS", "default"; empty: not asked
  StopReason stop = StopReason::ci;
  std::uint64_t samples = 0;
  std::optional<double> core_wait;  ///< share of the time in which the median rank could run but had no core; nothing:
                                    ///< the kernel does not tell
  bool shared_cores = false;        ///< more ranks than cores on a host: the scheduler chooses who is late
  struct RankTime {
    int rank = 0;
    std::string host;
    double own_median_s = 0;
    double late_median_s = 0;
    double last_share = 0;
  };
  std::vector<RankTime> ranks;  ///< of --per-rank
};

}  // namespace busbar
