#include "driver/diagnose/joined_comms.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace busbar {
namespace {

/// Names that ranks agree on.
class CommKeys {
 public:
  explicit CommKeys(const JobBook& book) : book_(book), keys_(book.instances.size()) {}

  const std::string& key(std::uint32_t index, int depth = 0) {
    std::string& key = keys_[index];
    if (!key.empty()) return key;
    const CommInstance& instance = book_.instances[index];
    if (instance.comm_id != 0) {
      key = fmt::format("id {:x}", instance.comm_id);
    } else if (instance.parent != 0 && depth < 16) {
      const bool known = instance.parent_instance != kNone && instance.parent_instance != index;
      const std::string parent = known ? this->key(instance.parent_instance, depth + 1) : std::string("?");
      const std::string family = fmt::format("{} of {} color {} n {}", instance.function == "ncclCommShrink", parent,
                                             instance.color, instance.nranks);
      keys_[index] = numbered(instance.actor, "child " + family);
    } else {
      key = numbered(instance.actor, fmt::format("n {}", instance.nranks));
    }
    return keys_[index];
  }

 private:
  std::string numbered(std::uint32_t actor, const std::string& family) {
    return fmt::format("{} #{}", family, made_[{actor, family}]++);
  }

  const JobBook& book_;
  std::vector<std::string> keys_;
  std::map<std::pair<std::uint32_t, std::string>, int> made_;
};

bool is_empty(const CommInstance& instance) {
  return instance.rank < 0 && instance.nranks < 0 && instance.comm_id == 0 && instance.calls.size() == 0 &&
         instance.sends + instance.receives == 0;
}

bool fits(const JobBook& book, const JoinedComm& comm) {
  std::set<int> ranks;
  std::set<std::uint32_t> actors;
  for (const CommMember& member : comm.members) {
    const int rank = book.instances[member.instance].rank;
    if (rank >= 0 && !ranks.insert(rank).second) return false;
    if (!actors.insert(member.actor).second) return false;
  }
  return comm.nranks < 0 || comm.members.size() <= static_cast<std::size_t>(comm.nranks);
}

/// Communicators of equal size on every host (tensor parallelism) have the same key: only hosts can distinguish them.
std::vector<JoinedComm> split_by_host(const JobBook& book, JoinedComm comm) {
  if (!comm.heuristic || fits(book, comm)) return {std::move(comm)};
  std::map<std::string, JoinedComm> by_host;
  for (const CommMember& member : comm.members) {
    JoinedComm& part = by_host[host_of(book, member.actor)];
    part.heuristic = true;
    part.child = comm.child;
    part.nranks = comm.nranks;
    part.nnodes = comm.nnodes;
    part.members.push_back(member);
  }
  std::vector<JoinedComm> parts;
  for (auto& [host, part] : by_host) {
    if (!fits(book, part)) {
      comm.ambiguous = true;
      return {std::move(comm)};
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

/// Logs that begin in the middle lack the commId that others have: one of the same size without these ranks is theirs.
void adopt_nameless(std::vector<JoinedComm>& comms) {
  for (std::size_t i = 0; i < comms.size(); ++i) {
    JoinedComm& stray = comms[i];
    if (!stray.heuristic || stray.child || stray.ambiguous || stray.nranks < 0) continue;
    JoinedComm* home = nullptr;
    std::size_t homes = 0;
    for (JoinedComm& other : comms) {
      if (other.id.empty() || other.nranks != stray.nranks || other.child) continue;
      ++homes;
      home = &other;
    }
    if (homes != 1) continue;
    std::set<std::uint32_t> there;
    for (const CommMember& member : home->members) there.insert(member.actor);
    const bool apart = std::none_of(stray.members.begin(), stray.members.end(),
                                    [&](const CommMember& member) { return there.count(member.actor) > 0; });
    if (!apart || home->members.size() + stray.members.size() > static_cast<std::size_t>(home->nranks)) continue;
    home->members.insert(home->members.end(), stray.members.begin(), stray.members.end());
    home->heuristic = true;
    stray.members.clear();
  }
  std::erase_if(comms, [](const JoinedComm& comm) { return comm.members.empty(); });
}

void name_comm(JoinedComm& comm, std::size_t number) {
  const std::string size = comm.nranks < 0    ? std::string("size not told")
                           : comm.nranks == 1 ? std::string("1 rank")
                                              : fmt::format("{} ranks", comm.nranks);
  comm.name = comm.id.empty() ? fmt::format("communicator {} ({}{})", number, size, comm.child ? ", child" : "")
                              : fmt::format("communicator {} ({}{})", comm.id, size, comm.child ? ", child" : "");
}

}  // namespace

std::vector<JoinedComm> join_communicators(const JobBook& book, const RankMap& rank_map) {
  std::vector<JoinedComm> comms;
  std::map<std::string, std::size_t> place;
  CommKeys keys(book);
  for (std::uint32_t index = 0; index < book.instances.size(); ++index) {
    const CommInstance& instance = book.instances[index];
    if (is_empty(instance) || instance.actor == kNone) continue;
    const auto [known, added] = place.emplace(keys.key(index), comms.size());
    if (added) comms.emplace_back();
    JoinedComm& comm = comms[known->second];
    if (instance.comm_id != 0) {
      comm.id = fmt::format("0x{:x}", instance.comm_id);
    } else if (instance.parent == 0) {
      comm.heuristic = true;
    }
    comm.child = comm.child || instance.parent != 0;
    comm.nranks = std::max(comm.nranks, instance.nranks);
    comm.nnodes = std::max(comm.nnodes, instance.nnodes);
    comm.members.push_back({index, instance.actor, instance.rank});
  }
  std::vector<JoinedComm> apart;
  for (JoinedComm& comm : comms) {
    for (JoinedComm& part : split_by_host(book, std::move(comm))) apart.push_back(std::move(part));
  }
  adopt_nameless(apart);
  for (std::size_t i = 0; i < apart.size(); ++i) {
    JoinedComm& comm = apart[i];
    for (CommMember& member : comm.members) {
      const int job_rank = rank_map.rank_of[member.actor];
      if (member.rank < 0 && comm.nranks == rank_map.nranks && job_rank < comm.nranks) member.rank = job_rank;
    }
    std::stable_sort(comm.members.begin(), comm.members.end(), [](const CommMember& a, const CommMember& b) {
      return static_cast<unsigned>(a.rank) < static_cast<unsigned>(b.rank);
    });
    name_comm(comm, i + 1);
  }
  return apart;
}

}  // namespace busbar
