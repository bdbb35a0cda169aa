#include "driver/diagnose/rank_map.h"

#include "common/base/compress_list.h"
#include "driver/diagnose/log_prefix.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace busbar {
namespace {

/// Ranks that NCCL's own lines do not tell, from what stands around them; each way is said once.
class RankGuess {
 public:
  RankGuess(const JobBook& book, std::span<const LogFile> files, JobCast& cast)
      : book_(book), files_(files), cast_(cast) {}

  void guess() {
    std::map<std::size_t, int> speakers_of_file;
    std::map<std::uint32_t, int> speakers_of_process;
    for (const std::uint32_t actor : cast_.speakers) {
      ++speakers_of_file[process(actor).file];
      ++speakers_of_process[book_.actors[actor].process];
    }
    std::size_t decorated = 0, named = 0;
    for (const std::uint32_t actor : cast_.speakers) {
      if (cast_.rank_of[actor] >= 0) continue;
      int rank =
          speakers_of_process[book_.actors[actor].process] == 1 ? decoration_rank(process(actor).decoration) : -1;
      if (take(actor, rank)) {
        ++decorated;
        continue;
      }
      const std::size_t file = process(actor).file;
      rank = speakers_of_file[file] == 1 && file < files_.size() ? file_name_rank(files_[file].path.filename().string())
                                                                 : -1;
      if (take(actor, rank)) ++named;
    }
    if (decorated > 0) cast_.notes.push_back(fmt::format("ranks of {} processes are the launcher's", decorated));
    if (named > 0) cast_.notes.push_back(fmt::format("ranks of {} processes are from the names of their files", named));
    guess_by_device();
  }

 private:
  const Process& process(std::uint32_t actor) const { return book_.processes[book_.actors[actor].process]; }

  bool take(std::uint32_t actor, int rank) {
    if (rank < 0 || cast_.actor_of.count(rank) > 0) return false;
    cast_.rank_of[actor] = rank;
    cast_.actor_of[rank] = actor;
    return true;
  }

  /// Whether the job has more hosts than the log tells of: connections over the network, a communicator's shape or
  /// tree, a peer's address that is not one of these hosts'.
  bool has_other_hosts() const {
    const auto over_network = [](const Actor& actor) {
      return std::any_of(actor.connections.begin(), actor.connections.end(),
                         [](const auto& one) { return std::get<3>(one.first).starts_with("NET/"); });
    };
    return cast_.hosts.size() > 1 || book_.facts.contains({"connected", "nvls"}) ||
           std::any_of(book_.actors.begin(), book_.actors.end(), over_network) ||
           std::any_of(book_.instances.begin(), book_.instances.end(),
                       [](const CommInstance& instance) { return instance.nnodes > 1; }) ||
           std::any_of(book_.named_peers.begin(), book_.named_peers.end(),
                       [&](const auto& peer) { return !cast_.host_of_address.contains(peer.first.second); });
  }

  // One host, every device once: the usual numbering. On the second of several hosts device 6 is rank 14.
  void guess_by_device() {
    std::set<int> devices;
    for (const std::uint32_t actor : cast_.speakers) {
      if (cast_.rank_of[actor] >= 0 || book_.actors[actor].dev < 0) return;
      if (!devices.insert(book_.actors[actor].dev).second) return;
    }
    if (devices.empty() || has_other_hosts()) return;
    for (const std::uint32_t actor : cast_.speakers) take(actor, book_.actors[actor].dev);
    cast_.notes.emplace_back("ranks are taken to be the numbers of the devices");
  }

  const JobBook& book_;
  std::span<const LogFile> files_;
  JobCast& cast_;
};

}  // namespace

void guess_ranks(const JobBook& book, std::span<const LogFile> files, JobCast& cast) {
  RankGuess(book, files, cast).guess();
}

const std::string& host_of(const JobBook& book, std::uint32_t actor) {
  return book.processes[book.actors[actor].process].host;
}

namespace {

// The rank in the largest communicator is the rank in the job.
std::vector<int> ranks_by_communicators(const JobBook& book) {
  std::vector<int> ranks(book.actors.size(), -1);
  std::vector<int> sizes(book.actors.size(), -1);
  for (const CommInstance& instance : book.instances) {
    if (instance.rank < 0 || instance.actor == kNone || instance.nranks <= sizes[instance.actor]) continue;
    sizes[instance.actor] = instance.nranks;
    ranks[instance.actor] = instance.rank;
  }
  return ranks;
}

bool is_speaker(const JobBook& book, std::uint32_t index) {
  const Actor& actor = book.actors[index];
  const Process& process = book.processes[actor.process];
  if (!process.anonymous) return true;
  return actor.dev >= 0 || actor.warnings > 0 || !actor.connections.empty() || !process.instances.empty() ||
         actor.hint_rank >= 0;
}

// NCCL's helper threads (proxies, the watcher of InfiniBand's events) have not all chosen a device: they complain as
// device 0, whatever their rank's is. Where a process shows one rank, its complaints are that rank's.
std::vector<std::uint32_t> find_helpers(const JobBook& book) {
  std::vector<bool> is_rank(book.actors.size(), false);
  for (const CommInstance& instance : book.instances) {
    if (instance.actor != kNone) is_rank[instance.actor] = true;
  }
  std::vector<std::uint32_t> speaks_for(book.actors.size());
  std::iota(speaks_for.begin(), speaks_for.end(), 0U);
  for (const Process& process : book.processes) {
    const auto owner = [&](std::uint32_t actor) { return is_rank[actor]; };
    if (process.actors.size() < 2 || std::count_if(process.actors.begin(), process.actors.end(), owner) != 1) continue;
    const std::uint32_t rank = *std::find_if(process.actors.begin(), process.actors.end(), owner);
    for (const std::uint32_t index : process.actors) {
      const Actor& actor = book.actors[index];
      const bool complains = actor.warnings + actor.failures > 0;
      if (actor.dev == 0 && complains && actor.hint_rank < 0 && actor.connections.empty()) speaks_for[index] = rank;
    }
  }
  return speaks_for;
}

// A log whose head was cut off begins in the middle of a line, perhaps of a host's name: who seems to speak there and
// nowhere else is nobody, where another process of the file can have said it.
std::set<std::uint32_t> find_beheaded(const JobBook& book) {
  std::map<std::size_t, std::uint32_t> first_of_file;
  for (std::uint32_t i = 0; i < book.processes.size(); ++i) {
    const Process& process = book.processes[i];
    if (process.first_line <= 1 && process.lines == 1 && process.instances.empty()) first_of_file[process.file] = i;
  }
  std::set<std::uint32_t> beheaded;
  for (const Process& whole : book.processes) {
    const auto first = first_of_file.find(whole.file);
    if (whole.anonymous || first == first_of_file.end()) continue;
    const Process& odd = book.processes[first->second];
    const bool tail = odd.pid == whole.pid && odd.host.size() < whole.host.size() && whole.host.ends_with(odd.host);
    if (&odd != &whole && (odd.anonymous || tail)) beheaded.insert(first->second);
  }
  return beheaded;
}

std::string name_actor(const JobBook& book, const JobCast& cast, std::uint32_t index, std::span<const LogFile> files) {
  const Actor& actor = book.actors[index];
  const Process& process = book.processes[actor.process];
  std::string place = process.host;
  if (process.pid >= 0) place += fmt::format("{}pid {}", place.empty() ? "" : ", ", process.pid);
  if (process.actors.size() > 1 || process.anonymous) {
    if (actor.dev >= 0) place += fmt::format("{}device {}", place.empty() ? "" : ", ", actor.dev);
  }
  if (cast.rank_of[index] >= 0) {
    return fmt::format("rank {}{}", cast.rank_of[index], place.empty() ? "" : " (" + place + ")");
  }
  if (place.empty() && !process.decoration.empty()) place = process.decoration;
  if (place.empty() && process.file < files.size()) place = "of " + files[process.file].path.filename().string();
  return "process " + (place.empty() ? "without a name" : place);
}

}  // namespace

JobCast cast_job(const JobBook& book, std::span<const LogFile> files) {
  JobCast cast;
  cast.rank_of = ranks_by_communicators(book);
  cast.speaks_for = find_helpers(book);
  const std::set<std::uint32_t> beheaded = find_beheaded(book);
  for (std::uint32_t i = 0; i < book.processes.size(); ++i) {
    const Process& process = book.processes[i];
    if (beheaded.contains(i)) continue;
    if (!process.host.empty()) cast.hosts.insert(process.host);
    for (const std::string& address : process.addresses) cast.host_of_address.emplace(address, process.host);
  }
  for (const CommInstance& instance : book.instances) cast.nranks = std::max(cast.nranks, instance.nranks);
  for (std::uint32_t actor = 0; actor < book.actors.size(); ++actor) {
    if (!is_speaker(book, actor) || beheaded.contains(book.actors[actor].process)) continue;
    if (cast.speaks_for[actor] != actor) continue;
    if (cast.rank_of[actor] < 0) cast.rank_of[actor] = book.actors[actor].hint_rank;
    cast.nranks = std::max(cast.nranks, book.actors[actor].hint_nranks);
    cast.speakers.push_back(actor);
    if (cast.rank_of[actor] >= 0) cast.actor_of.emplace(cast.rank_of[actor], actor);
  }
  guess_ranks(book, files, cast);
  std::stable_sort(cast.speakers.begin(), cast.speakers.end(), [&](std::uint32_t a, std::uint32_t b) {
    return static_cast<unsigned>(cast.rank_of[a]) < static_cast<unsigned>(cast.rank_of[b]);
  });
  for (std::uint32_t actor = 0; actor < book.actors.size(); ++actor) {
    cast.rank_of[actor] = cast.rank_of[cast.speaks_for[actor]];
    cast.name_of.push_back(name_actor(book, cast, cast.speaks_for[actor], files));
  }
  return cast;
}

std::string list_ranks(std::span<const int> ranks) {
  if (ranks.empty()) return "no rank";
  std::vector<int> sorted(ranks.begin(), ranks.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  if (sorted.size() == 1) return fmt::format("rank {}", sorted.front());
  std::string list = compress_ranks(sorted);
  constexpr std::size_t kLong = 120;
  if (list.size() <= kLong) return "ranks " + list;
  return fmt::format("{} ranks ({},...)", sorted.size(), list.substr(0, list.rfind(',', kLong)));
}

std::string list_actors(const JobCast& cast, std::span<const std::uint32_t> actors) {
  if (actors.size() == 1) return cast.name_of[actors.front()];
  std::vector<int> ranks;
  std::string others;
  std::size_t unnamed = 0;
  std::set<std::uint32_t> told;
  for (const std::uint32_t voice : actors) {
    const std::uint32_t actor = cast.speaks_for[voice];
    if (!told.insert(actor).second) continue;
    if (cast.rank_of[actor] >= 0) {
      ranks.push_back(cast.rank_of[actor]);
    } else if (++unnamed <= 4) {
      others += (others.empty() ? "" : "; ") + cast.name_of[actor];
    }
  }
  if (told.size() == 1) return cast.name_of[*told.begin()];
  if (unnamed > 4) others += fmt::format(" and {} more", unnamed - 4);
  if (ranks.empty()) return others.empty() ? "nobody" : others;
  return list_ranks(ranks) + (others.empty() ? "" : "; " + others);
}

}  // namespace busbar
