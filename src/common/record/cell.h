#pragma once

#include "common/base/enum_words.h"
#include "common/record/cell_stats.h"

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
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

/// Which cell it is, whatever came out: equal for the same one of another run.
struct CellIdentity {
  std::optional<Stage> stage;  ///< of accept, where all cells have one; nothing: elsewhere
  std::string cell;            ///< its name in accept's plan
  std::string scope;           ///< a host in accept's per-host stage; a variant of compare; else "all"
  std::string collective;
  std::string dtype;
  std::string op;  ///< "none" where nothing is reduced
  int root = -1;   ///< -1: it has none
  std::uint64_t nbytes = 0;
  std::uint64_t count = 0;  ///< [elements]
  bool in_place = false;

  auto operator<=>(const CellIdentity&) const = default;
};

/// One size and placement, measured: by a benchmark, by one of compare's variants or in a stage of accept. What a
/// document does not tell stays as it is here.
struct Cell : CellIdentity {
  int nranks = 0;
  int nhosts = 0;
  int repetition = 0;   ///< of accept's repeat_for; the same cell again is one more of these
  double median_s = 0;  ///< without --stat the time that the table shows
  std::optional<Interval> interval_s;
  double relative_half_width = 0;
  double span_s = 0;                    ///< of the epochs; 0: not told
  double correlation_time_s = 0;        ///< of the drift, estimated (prediction.h); 0: not told
  std::vector<double> epoch_medians_s;  ///< in time order; in histories also the times of the cycles of -N
  double calls_per_epoch = 1;
  double busbw = 0;  ///< [1e9 B/s], of the median
  std::optional<Interval> busbw_interval;
  std::optional<std::int64_t> wrong;     ///< nothing: not checked
  std::vector<std::string> wrong_texts;  ///< "rank 3 on node1: ..." as the benchmarks explain it
  std::vector<int> wrong_ranks;          ///< whom the data blame
  std::string algorithm;                 ///< "RING", "NVLS", "default"; empty: not asked
  std::string protocol;
  std::string channels;
  std::string note;
  StopReason stop = StopReason::ci;
  std::uint64_t samples = 0;
  std::optional<double> core_wait;  ///< share of the time in which the median rank could run but had no core; nothing:
                                    ///< the kernel does not tell
  bool shared_cores = false;        ///< more ranks than cores on a host: the scheduler chooses who is late
  std::vector<RankTime> ranks;      ///< of --per-rank
  std::optional<int> straggler;     ///< rank that the statistics name
};

/// Sizes that could not be measured, and why.
struct SkippedCell {
  std::string cell;  ///< of accept's plan, as stage and scope
  Stage stage = Stage::whole;
  std::string scope;
  std::string dtype;
  std::string op;
  std::string reason;
  int root = -1;  ///< -1: it has none
};

inline const CellIdentity& identity(const Cell& cell) { return cell; }

inline bool same_cell(const Cell& a, const Cell& b) { return identity(a) == identity(b); }

/// What the statistics say of a cell; of its bandwidth they know nothing.
void set_stats(Cell& cell, const CellStats& stats);

/// The scope of these cells (the host, of those that were measured alone) that is slowest: whose times are longest
/// beside the median of all scopes' in the same size, on average over the sizes. Empty where none has a time. Pure.
std::string slowest_scope(std::span<const Cell* const> cells);

}  // namespace busbar
