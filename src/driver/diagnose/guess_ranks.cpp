#include "driver/diagnose/guess_ranks.h"

#include "driver/diagnose/log_decoration.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace busbar {

namespace {

/// Ranks that NCCL's own lines do not tell, from what stands around them; each
/// way is said once.
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

}  // namespace busbar
