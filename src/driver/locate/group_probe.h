#pragma once

#include "common/backends/backend.h"
#include "common/base/config.h"
#include "common/measure/buffer_plan.h"
#include "common/processes/comm.h"
#include "common/record/culprit.h"
#include "common/watch/watchdog.h"
#include "driver/locate/pairing.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// `--unit`: what may be slow. Automatic: hosts if there are two of them, else ranks.
enum class UnitChoice : std::uint8_t { automatic, host, rank };

/// What a search tests: the processes of each unit, numbered by their local index. The same on all processes.
struct LocateUnits {
  bool hosts = true;                         ///< else ranks
  std::vector<std::string> names;            ///< "node3", or "rank 3"; two hosts of one name show their first rank
  std::vector<std::vector<int>> processes;   ///< of each unit, ascending
  std::vector<std::string> host_of_process;  ///< by process

  int count() const { return static_cast<int>(processes.size()); }
  UnitKind kind() const { return hosts ? UnitKind::host : UnitKind::rank; }
  /// Local indices that every unit has.
  int rails() const;
};

/// Units in the order of their lowest process. Collective.
LocateUnits agree_on_units(const Comm& world, UnitChoice choice);

/// The same of hosts' names by process, where `leader[p]` is the lowest process of the host of process p. Pure.
LocateUnits make_units(const std::vector<std::string>& hosts, const std::vector<int>& leader, UnitChoice choice);

/// What one process does in a round.
struct Seat {
  int group = -1;  ///< -1: it waits
  int link = 0;    ///< its local index; the processes of one group and link make one communicator
  int root = 0;    ///< of the communicator, ordered as `world`: the rank of the group's first unit
};

/// Every process's seat. In a group as many links are used as all of its units have, or the round's rail alone. Pure.
std::vector<Seat> seats_of(const LocateRound& round, const LocateUnits& units);

/// Links of each group. Pure.
std::vector<int> links_of(const LocateRound& round, const LocateUnits& units);

/// How the groups of a round are measured; the same on all processes.
struct GroupShape {
  std::uint64_t nbytes = 0;  ///< one message: what each link carries, each way if it is not one way [bytes]
  int repetitions = 0;
  double repetition_s = 0;  ///< what a healthy one takes, both ways; 0: not known yet
};

/// Wraps a group's communicator: for --inject, and for tests that break it. May be null.
using WrapGroup = std::function<std::unique_ptr<Backend>(std::unique_ptr<Backend>)>;

/// Measures the groups of a round, all at the same time. Units exchange messages in a ring (two: with each other), or
/// the first of a pair sends to the second; each local index does so in a communicator of its own, so that all NICs of
/// a host are loaded together. Repetitions begin together in a group, and no group waits for another: what they
/// take is what the slowest link of the group takes.
/// Pairs exchange both ways at once on GPUs. On host memory first one way, then the other, and the slower counts: Open
/// MPI over TCP serves both ways at once now at full and now at half speed (measured: 60 and 30 MB/s on one link),
/// which would make healthy pairs differ by a factor of two.
class GroupProbe {
 public:
  /// `baseline` owns the buffers, of `capacity` bytes each, and must drive one rank per process. Everything must
  /// outlive the probe. `now` returns this process's time. Collective.
  GroupProbe(const Comm& world, const LocateUnits& units, Backend& baseline, const Config& config, std::size_t capacity,
             Watchdog& watchdog, WrapGroup wrap, std::function<Clock::time_point()> now = Clock::now);

  /// One measurement per group in order, the same on all processes; a group without links has no repetitions. `name`:
  /// of the round, for messages. New communicators each time: on NCCL that takes longer than the measurement. A group
  /// that takes more than three times as long as it should, and has three repetitions, makes no more. Collective; a
  /// failure inside must end the job.
  std::vector<GroupMeasurement> measure(const LocateRound& round, const GroupShape& shape, const std::string& name);

  const Arena& arena() const { return arena_; }

  /// Whether pairs exchange one way after the other.
  bool in_turns() const { return in_turns_; }

 private:
  std::vector<double> repeat(Backend& backend, const Comm& group, std::span<const Operation> ops,
                             const GroupShape& shape);

  const Comm& world_;
  const LocateUnits& units_;
  const Config& config_;
  Watchdog& watchdog_;
  WrapGroup wrap_;
  std::function<Clock::time_point()> now_;
  bool in_turns_;
  Arena arena_;
};

/// A group's repetitions as one measurement: `nbytes` over the median of `times_s`, and how steady they were. Pure.
GroupMeasurement summarize_group(std::span<const double> times_s, double nbytes);

/// Message and repetitions so that a round takes about `round_s`: what the user requested (0: choose), else the
/// smallest power of two up to `most_bytes` that takes `wanted_s` one way with the fastest pair of neighbors, though
/// no less than 1 MiB unless that takes long. Collective.
GroupShape choose_shape(GroupProbe& probe, const LocateUnits& units, std::uint64_t nbytes, int repetitions,
                        double round_s, std::uint64_t most_bytes, double wanted_s);

}  // namespace busbar
