#pragma once

#include "common/mpi/comm.h"
#include "common/record/culprit.h"
#include "driver/locate/round.h"

#include <cstdint>
#include <string>
#include <vector>

namespace busbar {

/// `--unit`: what may be slow. Automatic: hosts where there are two of them, else ranks.
enum class UnitChoice : std::uint8_t { automatic, host, rank };

/// Whom a search looks at: the processes of each unit, numbered by their local index. The same on all processes.
struct LocateUnits {
  bool hosts = true;                         ///< else ranks
  std::vector<std::string> names;            ///< "node3", or "rank 3"; two hosts of one name tell their first rank
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

}  // namespace busbar
