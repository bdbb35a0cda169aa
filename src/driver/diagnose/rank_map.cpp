#include "driver/diagnose/call_alignment.h"
#include "driver/readers/log_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

namespace busbar {
namespace {

bool assign(RankMap& rank_map, std::uint32_t source, int rank) {
  if (rank < 0 || rank_map.source_of.contains(rank)) return false;
  rank_map.rank_of[source] = rank;
  rank_map.source_of[rank] = source;
  return true;
}

/// Ranks that NCCL's own lines do not give, from the launcher's decorations and the names of files; which way was taken
/// is noted once. Needs the rank sources and the ranks that are known.
void guess_ranks(const JobBook& book, std::span<const LogFile> files, RankMap& rank_map) {
  std::map<std::size_t, int> ranks_of_file;
  std::map<std::uint32_t, int> ranks_of_process;
  for (const std::uint32_t source : rank_map.rank_sources) {
    ++ranks_of_file[process_of(book, source).file];
    ++ranks_of_process[book.sources[source].process];
  }
  std::size_t decorated = 0, named = 0;
  for (const std::uint32_t source : rank_map.rank_sources) {
    if (rank_map.rank_of[source] >= 0) continue;
    const Process& process = process_of(book, source);
    const bool alone = ranks_of_process[book.sources[source].process] == 1;
    const bool own_file = ranks_of_file[process.file] == 1 && process.file < files.size();
    if (alone && assign(rank_map, source, decoration_rank(process.decoration))) {
      ++decorated;
    } else if (own_file && assign(rank_map, source, file_name_rank(files[process.file].path.filename().string()))) {
      ++named;
    }
  }
  const auto note = [&](std::size_t processes, std::string_view whose) {
    if (processes > 0) rank_map.notes.push_back(fmt::format("ranks of {} processes are {}", processes, whose));
  };
  note(decorated, "the launcher's");
  note(named, "from the names of their files");
}

// The rank in the largest communicator is the rank in the job.
std::vector<int> ranks_by_communicators(const JobBook& book) {
  std::vector<int> ranks(book.sources.size(), -1);
  std::vector<int> sizes(book.sources.size(), -1);
  for (std::size_t source = 0; source < book.sources.size(); ++source) {
    ranks[source] = book.sources[source].job_rank;
    if (ranks[source] >= 0) sizes[source] = std::numeric_limits<int>::max();
  }
  for (const CommInstance& instance : book.instances) {
    if (instance.rank < 0 || instance.source == kNoIndex || instance.nranks <= sizes[instance.source]) continue;
    sizes[instance.source] = instance.nranks;
    ranks[instance.source] = instance.rank;
  }
  // A log without its Init lines in a larger one has only a part's number.
  for (const CommInstance& instance : book.instances) {
    if (instance.source == kNoIndex || instance.nranks <= sizes[instance.source]) continue;
    ranks[instance.source] = -1;
  }
  return ranks;
}

bool is_rank_source(const JobBook& book, std::uint32_t index) {
  const LogSource& source = book.sources[index];
  const Process& process = book.processes[source.process];
  return !process.anonymous || source.dev >= 0 || source.warnings > 0 || !source.connections.empty() ||
         !process.instances.empty() || source.hint_rank >= 0;
}

// NCCL's helper threads (proxies, the watcher of InfiniBand's events) have not all set a device: they warn as device 0,
// whatever their rank's is. If a process has one rank, its warnings are that rank's.
std::vector<std::uint32_t> find_helpers(const JobBook& book) {
  std::vector<bool> is_rank(book.sources.size(), false);
  for (const CommInstance& instance : book.instances) {
    if (instance.source != kNoIndex) is_rank[instance.source] = true;
  }
  std::vector<std::uint32_t> owner_of(book.sources.size());
  std::iota(owner_of.begin(), owner_of.end(), 0U);
  for (const Process& process : book.processes) {
    const auto owner = [&](std::uint32_t source) { return is_rank[source]; };
    if (process.sources.size() < 2 || std::ranges::count_if(process.sources, owner) != 1) continue;
    const std::uint32_t rank = *std::ranges::find_if(process.sources, owner);
    for (const std::uint32_t index : process.sources) {
      const LogSource& source = book.sources[index];
      const bool complains = source.warnings + source.failures > 0;
      if (source.dev == 0 && complains && source.hint_rank < 0 && source.connections.empty()) owner_of[index] = rank;
    }
  }
  return owner_of;
}

// A log whose head was cut off begins in the middle of a line, perhaps of a host's name: a process that only that line
// names does not exist if another process of the file can have written it.
std::set<std::uint32_t> find_cut_heads(const JobBook& book) {
  std::map<std::size_t, std::uint32_t> first_of_file;
  for (std::uint32_t i = 0; i < book.processes.size(); ++i) {
    const Process& process = book.processes[i];
    if (process.first_line <= 1 && process.lines == 1 && process.instances.empty()) first_of_file[process.file] = i;
  }
  std::set<std::uint32_t> cut_heads;
  for (const Process& whole : book.processes) {
    const auto first = first_of_file.find(whole.file);
    if (whole.anonymous || first == first_of_file.end()) continue;
    const Process& odd = book.processes[first->second];
    const bool tail = odd.pid == whole.pid && odd.host.size() < whole.host.size() && whole.host.ends_with(odd.host);
    if (&odd != &whole && (odd.anonymous || tail)) cut_heads.insert(first->second);
  }
  return cut_heads;
}

std::string name_source(const JobBook& book, const RankMap& rank_map, std::uint32_t index,
                        std::span<const LogFile> files) {
  const LogSource& source = book.sources[index];
  const Process& process = book.processes[source.process];
  std::string place = process.host;
  if (process.pid >= 0) place += fmt::format("{}pid {}", place.empty() ? "" : ", ", process.pid);
  if ((process.sources.size() > 1 || process.anonymous) && source.dev >= 0)
    place += fmt::format("{}device {}", place.empty() ? "" : ", ", source.dev);
  if (rank_map.rank_of[index] >= 0) {
    return fmt::format("rank {}{}", rank_map.rank_of[index], place.empty() ? "" : " (" + place + ")");
  }
  if (place.empty() && !process.decoration.empty()) place = process.decoration;
  if (place.empty() && process.file < files.size()) place = "of " + files[process.file].path.filename().string();
  return "process " + (place.empty() ? "without a name" : place);
}

bool is_empty(const CommInstance& instance) {
  return instance.rank < 0 && instance.nranks < 0 && instance.comm_id == 0 && instance.ncalls() == 0;
}

/// By instance, a name that ranks agree on.
std::vector<std::string> comm_keys(const JobBook& book) {
  std::vector<std::string> keys;
  std::map<std::pair<std::uint32_t, std::string>, int> made;
  for (const CommInstance& instance : book.instances) {
    if (instance.comm_id != 0 || is_empty(instance)) {
      keys.push_back(fmt::format("id {:x}", instance.comm_id));
      continue;
    }
    std::string family = fmt::format("n {}", instance.nranks);
    if (instance.parent != 0) {
      // As a hash: children may have children without end.
      const bool known = instance.parent_instance < keys.size();
      const std::size_t parent = known ? std::hash<std::string>{}(keys[instance.parent_instance]) : 0;
      family = fmt::format("child {} of {:x} color {} {}", instance.function == "ncclCommShrink", parent,
                           instance.color, family);
    }
    keys.push_back(fmt::format("{} #{}", family, made[{instance.source, family}]++));
  }
  return keys;
}

bool fits(const JoinedComm& comm) {
  std::set<int> ranks;
  std::set<std::uint32_t> sources;
  for (const CommMember& member : comm.members) {
    if (member.rank >= 0 && !ranks.insert(member.rank).second) return false;
    if (!sources.insert(member.source).second) return false;
  }
  return comm.nranks < 0 || comm.members.size() <= static_cast<std::size_t>(comm.nranks);
}

/// Communicators of equal size on every host (tensor parallelism) have the same key: only hosts can distinguish them.
std::vector<JoinedComm> split_by_host(const JobBook& book, JoinedComm comm) {
  if (!comm.heuristic || fits(comm)) return {std::move(comm)};
  JoinedComm nobody = comm;
  nobody.members.clear();
  std::map<std::string, JoinedComm> by_host;
  for (const CommMember& member : comm.members)
    by_host.try_emplace(host_of(book, member.source), nobody).first->second.members.push_back(member);
  std::vector<JoinedComm> parts;
  for (auto& [host, part] : by_host) {
    if (!fits(part)) {
      comm.ambiguous = true;
      return {std::move(comm)};
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

/// Logs that begin in the middle lack the commId that others have: one of the same size without these ranks is theirs.
void adopt_nameless(std::vector<JoinedComm>& comms) {
  std::map<int, std::vector<JoinedComm*>> homes;  // by size
  for (JoinedComm& comm : comms) {
    if (!comm.id.empty() && !comm.child) homes[comm.nranks].push_back(&comm);
  }
  for (JoinedComm& stray : comms) {
    if (!stray.heuristic || stray.child || stray.ambiguous || stray.nranks < 0) continue;
    const auto known = homes.find(stray.nranks);
    if (known == homes.end() || known->second.size() != 1) continue;
    JoinedComm* const home = known->second.front();
    std::set<std::uint32_t> there;
    for (const CommMember& member : home->members) there.insert(member.source);
    const bool apart =
        std::ranges::none_of(stray.members, [&](const CommMember& member) { return there.count(member.source) > 0; });
    if (!apart || home->members.size() + stray.members.size() > static_cast<std::size_t>(home->nranks)) continue;
    home->members.insert(home->members.end(), stray.members.begin(), stray.members.end());
    home->heuristic = true;
    stray.members.clear();
  }
  std::erase_if(comms, [](const JoinedComm& comm) { return comm.members.empty(); });
}

/// Calls whose Init lines are missing: if other communicators of that size lack ranks too, they may be of any.
void find_strays(std::vector<JoinedComm>& comms) {
  const auto lacks_ranks = [](const JoinedComm& comm) {
    return comm.recorded_as.empty() && comm.members.size() < static_cast<std::size_t>(std::max(comm.nranks, 0));
  };
  std::map<int, std::size_t> lacking;  // by size
  for (const JoinedComm& comm : comms) lacking[comm.nranks] += lacks_ranks(comm) ? 1 : 0;
  for (JoinedComm& stray : comms) {
    if (!stray.heuristic || stray.child || !stray.id.empty() || !lacks_ranks(stray)) continue;
    stray.ambiguous = stray.ambiguous || lacking[stray.nranks] > 1;
  }
}

void name_comm(JoinedComm& comm, std::size_t number) {
  const std::string size = comm.nranks < 0 ? "size unknown" : counted(comm.nranks, "rank");
  const std::string name = comm.id.empty() ? std::to_string(number) : comm.id;
  comm.name = comm.recorded_as.empty() ? fmt::format("communicator {} ({}{})", name, size, comm.child ? ", child" : "")
                                       : fmt::format("{} ({})", comm.recorded_as, size);
}

}  // namespace

const Process& process_of(const JobBook& book, std::uint32_t source) {
  return book.processes[book.sources[source].process];
}

const std::string& host_of(const JobBook& book, std::uint32_t source) { return process_of(book, source).host; }

RankMap map_ranks(const JobBook& book, std::span<const LogFile> files) {
  RankMap rank_map;
  rank_map.rank_of = ranks_by_communicators(book);
  rank_map.owner_of = find_helpers(book);
  const std::set<std::uint32_t> cut_heads = find_cut_heads(book);
  for (std::uint32_t i = 0; i < book.processes.size(); ++i) {
    const Process& process = book.processes[i];
    if (cut_heads.contains(i)) continue;
    if (!process.host.empty()) rank_map.hosts.insert(process.host);
    for (const std::string& address : process.addresses) rank_map.host_of_address.emplace(address, process.host);
  }
  for (const CommInstance& instance : book.instances) rank_map.nranks = std::max(rank_map.nranks, instance.nranks);
  for (const LogSource& source : book.sources) rank_map.nranks = std::max(rank_map.nranks, source.hint_nranks);
  // Several that claim a rank are of as many communicators.
  std::map<int, int> claims;
  for (const LogSource& source : book.sources) ++claims[source.hint_rank];
  for (std::uint32_t source = 0; source < book.sources.size(); ++source) {
    if (!is_rank_source(book, source) || cut_heads.contains(book.sources[source].process)) continue;
    if (rank_map.owner_of[source] != source) continue;
    const LogSource& hints = book.sources[source];
    const bool of_part = hints.hint_nranks < 0 ? claims[hints.hint_rank] > 1 : hints.hint_nranks < rank_map.nranks;
    if (rank_map.rank_of[source] < 0 && !of_part) rank_map.rank_of[source] = std::max(hints.hint_rank, -1);
    rank_map.rank_sources.push_back(source);
    if (rank_map.rank_of[source] >= 0) rank_map.source_of.emplace(rank_map.rank_of[source], source);
  }
  guess_ranks(book, files, rank_map);
  std::ranges::stable_sort(rank_map.rank_sources, [&](std::uint32_t a, std::uint32_t b) {
    return static_cast<unsigned>(rank_map.rank_of[a]) < static_cast<unsigned>(rank_map.rank_of[b]);
  });
  for (std::uint32_t source = 0; source < book.sources.size(); ++source) {
    rank_map.rank_of[source] = rank_map.rank_of[rank_map.owner_of[source]];
    rank_map.name_of.push_back(name_source(book, rank_map, rank_map.owner_of[source], files));
  }
  return rank_map;
}

std::string list_ranks(const RankList& ranks) {
  if (ranks.empty()) return "no rank";
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  std::string list = compress_ranks(ranks);
  constexpr std::size_t kLong = 120;
  if (list.size() <= kLong) return "ranks " + list;
  return fmt::format("{} ranks ({},...)", ranks.size(), list.substr(0, list.rfind(',', kLong)));
}

std::string list_sources(const RankMap& rank_map, std::span<const std::uint32_t> sources) {
  if (sources.size() == 1) return rank_map.name_of[sources.front()];
  std::vector<int> ranks;
  std::string others;
  std::size_t unnamed = 0;
  std::set<std::uint32_t> shown;
  std::set<std::string> names;  // some lines have no more of a process than the number of its device
  for (const std::uint32_t each : sources) {
    const std::uint32_t source = rank_map.owner_of[each];
    if (!shown.insert(source).second) continue;
    if (rank_map.rank_of[source] >= 0) {
      ranks.push_back(rank_map.rank_of[source]);
    } else if (names.insert(rank_map.name_of[source]).second && ++unnamed <= 4) {
      others += (others.empty() ? "" : "; ") + rank_map.name_of[source];
    }
  }
  if (shown.size() == 1) return rank_map.name_of[*shown.begin()];
  if (unnamed > 4) others += fmt::format(" and {} more", unnamed - 4);
  if (ranks.empty()) return others.empty() ? "nobody" : others;
  return list_ranks(ranks) + (others.empty() ? "" : "; " + others);
}

std::vector<JoinedComm> join_communicators(const JobBook& book, const RankMap& rank_map) {
  std::vector<JoinedComm> comms;
  std::map<std::string, std::size_t> place;
  const std::vector<std::string> keys = comm_keys(book);
  for (std::uint32_t index = 0; index < book.instances.size(); ++index) {
    const CommInstance& instance = book.instances[index];
    if (is_empty(instance) || instance.source == kNoIndex) continue;
    const auto [known, added] = place.emplace(keys[index], comms.size());
    if (added) comms.emplace_back();
    JoinedComm& comm = comms[known->second];
    if (!instance.recorded_as.empty()) {
      comm.recorded_as = instance.recorded_as;
    } else if (instance.comm_id != 0) {
      comm.id = fmt::format("0x{:x}", instance.comm_id);
    } else if (instance.parent == 0) {
      comm.heuristic = true;
    }
    comm.child = comm.child || instance.parent != 0;
    comm.nranks = std::max(comm.nranks, instance.nranks);
    comm.nnodes = std::max(comm.nnodes, instance.nnodes);
    comm.members.push_back({&instance, instance.source, instance.rank});
  }
  std::vector<JoinedComm> apart;
  for (JoinedComm& comm : comms) {
    for (JoinedComm& part : split_by_host(book, std::move(comm))) apart.push_back(std::move(part));
  }
  adopt_nameless(apart);
  find_strays(apart);
  for (std::size_t i = 0; i < apart.size(); ++i) {
    JoinedComm& comm = apart[i];
    for (CommMember& member : comm.members) {
      const int job_rank = rank_map.rank_of[member.source];
      if (member.rank < 0 && comm.nranks == rank_map.nranks && job_rank < comm.nranks) member.rank = job_rank;
    }
    std::ranges::stable_sort(comm.members, [](const CommMember& a, const CommMember& b) {
      return static_cast<unsigned>(a.rank) < static_cast<unsigned>(b.rank);
    });
    name_comm(comm, i + 1);
  }
  return apart;
}

}  // namespace busbar
