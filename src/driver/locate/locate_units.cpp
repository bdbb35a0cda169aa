#include "driver/locate/locate_units.h"

#include "common/base/records.h"
#include "common/mpi/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

namespace busbar {

int LocateUnits::rails() const {
  std::size_t least = std::numeric_limits<int>::max();
  for (const std::vector<int>& of_unit : processes) least = std::min(least, of_unit.size());
  return processes.empty() ? 0 : static_cast<int>(least);
}

LocateUnits make_units(const std::vector<std::string>& hosts, const std::vector<int>& leader, UnitChoice choice) {
  std::map<int, std::vector<int>> by_leader;
  for (std::size_t p = 0; p < leader.size(); ++p) by_leader[leader[p]].push_back(static_cast<int>(p));
  LocateUnits units;
  units.host_of_process = hosts;
  units.hosts = choice == UnitChoice::host || (choice == UnitChoice::automatic && by_leader.size() >= 2);
  if (!units.hosts) {
    for (std::size_t p = 0; p < hosts.size(); ++p) {
      units.names.push_back(fmt::format("rank {}", p));
      units.processes.push_back({static_cast<int>(p)});
    }
    return units;
  }
  std::map<std::string, int> times;
  for (const auto& [first, processes] : by_leader) ++times[hosts[first]];
  for (const auto& [first, processes] : by_leader) {
    const bool alone = times[hosts[first]] == 1;
    units.names.push_back(alone ? hosts[first] : fmt::format("{} (rank {})", hosts[first], first));
    units.processes.push_back(processes);
  }
  return units;
}

LocateUnits agree_on_units(const Comm& world, UnitChoice choice) {
  const Comm host = world.split_by_host();
  int leader = world.rank();
  host.broadcast(&leader, sizeof leader, 0);
  std::string packed;
  for (const std::string& text : world.gather(pack_record({hostname(), std::to_string(leader)}))) packed += text;
  packed = world.broadcast(packed, 0);
  std::vector<std::string> hosts;
  std::vector<int> leaders;
  for (const std::vector<std::string>& fields : unpack_records(packed)) {
    hosts.push_back(fields.at(0));
    leaders.push_back(std::stoi(fields.at(1)));
  }
  return make_units(hosts, leaders, choice);
}

std::vector<int> links_of(const LocateRound& round, const LocateUnits& units) {
  std::vector<int> links;
  for (const std::vector<int>& group : round.groups) {
    std::size_t least = std::numeric_limits<int>::max();
    for (const int unit : group) least = std::min(least, units.processes[unit].size());
    if (round.rail >= 0) least = static_cast<std::size_t>(round.rail) < least ? 1 : 0;
    links.push_back(group.empty() ? 0 : static_cast<int>(least));
  }
  return links;
}

std::vector<Seat> seats_of(const LocateRound& round, const LocateUnits& units) {
  std::vector<Seat> seats(units.host_of_process.size());
  const std::vector<int> links = links_of(round, units);
  for (std::size_t g = 0; g < round.groups.size(); ++g) {
    const std::vector<int>& group = round.groups[g];
    for (int i = 0; i < links[g]; ++i) {
      const int link = round.rail >= 0 ? round.rail : i;
      const int first = units.processes[group.front()][link];
      const auto before = [&](int unit) { return units.processes[unit][link] < first; };
      const int root = static_cast<int>(std::count_if(group.begin(), group.end(), before));
      for (const int unit : group) seats[units.processes[unit][link]] = {static_cast<int>(g), link, root};
    }
  }
  return seats;
}

}  // namespace busbar
