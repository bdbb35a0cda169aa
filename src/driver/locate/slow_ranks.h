#pragma once

#include "common/base/enum_words.h"
#include "common/base/outcome.h"
#include "common/measure/disturbance.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace busbar {

// Ranks that are slow by themselves, whatever the network does. Everything here is pure.

/// What every rank does alone while all the others do the same.
enum class SoloProbe : std::uint8_t { spin, fill, to_host, from_host };
inline constexpr std::array kSoloProbes{SoloProbe::spin, SoloProbe::fill, SoloProbe::to_host, SoloProbe::from_host};

/// What shows a rank to be slow: first the solo probes, in their order.
enum class SlowBy : std::uint8_t {
  spin,
  fill,
  to_host,
  from_host,
  core_share,
  core_share_in_turns,  ///< waiting for other processes left out
  arrival,
};
constexpr EnumWords<7> words_of(SlowBy) {
  return {"host core", "fill", "copy to host", "copy from host", "core share", "core share in turns", "arrival"};
}
static_assert(name(SlowBy::arrival) == "arrival");
constexpr SlowBy slow_by(SoloProbe probe) { return static_cast<SlowBy>(probe); }
static_assert(slow_by(SoloProbe::from_host) == SlowBy::from_host);

/// Each probe is made in so many sets, apart in time: a rank that is slow in two of them is slow.
inline constexpr std::size_t kSoloSets = 3;

/// What the probes of one rank took.
struct ProbedRank {
  std::string host;
  std::string device;  ///< its name: only equal devices are compared
  std::array<std::array<double, kSoloProbes.size()>, kSoloSets> solo_s{};  ///< the best of each set
  std::array<CoreTime, kSoloSets> core{};                                  ///< while all ranks spin
  std::vector<double> entry_s;  ///< arrivals at an operation, per iteration, on the clock that all share
  double work_s = 0;            ///< median of the work before each
  double work_cpu_s = 0;        ///< the same by the CPU time that it had; 0: a device does the work
};

/// A rank that is slow.
struct SlowRank {
  int rank = 0;
  std::string host;
  Outcome outcome = Outcome::fail;
  SlowBy probe = SlowBy::arrival;
  double ratio = 0;       ///< of the median speed of the others
  int slow_sets = 0;      ///< solo probes: of kSoloSets
  int times_last = 0;     ///< arrival: of `iterations`
  int iterations = 0;     ///<
  double late_s = 0;      ///< arrival: median after the median rank
  double gap_s = 0;       ///< arrival: median after the last of the others; below 0: mostly not the last
  bool confirmed = true;  ///< arrival: without it the operation is as fast as it should be
  int looks = 1;          ///< that were made, minutes apart
  int looks_slow = 1;     ///< of these, up to the first in which it did not fail
  bool operator==(const SlowRank&) const = default;
};

struct SlowRankVerdict {
  Outcome outcome = Outcome::skip;
  std::vector<SlowRank> slow;        ///< worst first
  std::vector<std::string> skipped;  ///< what could not be judged, and why
};

/// Slow by solo probes: among at least four equal devices, below `fail` (or `warn`) of the median speed and more than
/// six robust standard deviations off (0.6745 x / MAD, the MAD at least 1 % of the median), in two sets of three. If
/// ranks take turns on cores (as judge_core says), what the host's memory takes part in is skipped: after each turn a
/// rank finds its caches cold, which takes CPU time.
SlowRankVerdict judge_solo(std::span<const ProbedRank> ranks, double warn, double fail, bool take_turns);

/// Kept off its core, by the same rule but in all three sets: the share of the time in which a rank, always with
/// something to compute, had a core. If ranks take turns on cores (`take_turns` as below, or the median rank waits
/// for more than a sixth of the time) the scheduler decides which one waits: waiting is then left out, two sets of
/// three are enough, and what is left (stopped; not: a quota) counts from a tenth of the time on; skipped if a kernel
/// does not report waiting.
SlowRankVerdict judge_core(std::span<const ProbedRank> ranks, double warn, double fail, bool take_turns);

/// Late by arrival, of at least four ranks (without one of two, the other waits for nobody): last in more than 60 % of
/// the iterations, which chance explains with less than 1e-6, by more than a tenth of the work and more than the
/// clocks' error. Skipped if ranks take turns on cores: the scheduler then decides which one is last; `take_turns`:
/// known beforehand, as some host has more ranks than cores. All are unconfirmed.
SlowRankVerdict judge_arrival(std::span<const ProbedRank> ranks, double clock_error_s, bool take_turns);

/// A late rank that costs nothing is a remark, not a finding.
void drop_unconfirmed(SlowRankVerdict& arrival);

/// Both; a rank that is slow in both is listed once per probe.
SlowRankVerdict join(SlowRankVerdict solo, const SlowRankVerdict& arrival);

/// FAIL, in each look.
bool fails_so_far(const SlowRank& slow);
/// A further look, minutes later: a rank that does not FAIL there by some probe was busy for a while.
void look_again(SlowRankVerdict& verdict, const SlowRankVerdict& later);

/// A rank that fails in fewer looks than are wanted is a WARN.
void demand_looks(SlowRankVerdict& verdict, int wanted);

/// "rank 5 on node2: copy to host at 0.52 of the median, in 3 of 3 sets",
/// "rank 5 on node2: kept off its core: 0.21 of the median's CPU time, in 3 of 3 sets".
std::string describe(const SlowRank& slow);

}  // namespace busbar
