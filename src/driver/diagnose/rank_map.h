#pragma once

#include "common/base/compress_list.h"
#include "driver/diagnose/job_book.h"
#include "driver/readers/log_files.h"

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// The rank of each source (a device of a process), as far as the logs show.
struct RankMap {
  std::vector<int> rank_of;                 ///< by source; -1: unknown
  std::vector<std::string> name_of;         ///< by source: "rank 3 (node1, pid 4242)"
  std::vector<std::uint32_t> owner_of;      ///< by source: itself, or the rank whose helper thread it is
  std::vector<std::uint32_t> rank_sources;  ///< sources that are a rank (not a bare "NCCL version" line), by rank
  std::map<int, std::uint32_t> source_of;   ///< by rank
  std::set<std::string> hosts;
  std::map<std::string, std::string> host_of_address;
  int nranks = -1;                 ///< of the largest communicator
  bool guessed = false;            ///< ranks are taken to be device numbers: too weak to blame anyone
  std::vector<std::string> notes;  ///< how ranks were found if NCCL does not give them
};

/// From communicators and timings, else from what surrounds NCCL's lines: the launcher's decorations, the names of
/// `files`, the numbers of devices.
RankMap map_ranks(const JobBook& book, std::span<const LogFile> files);

/// "rank 3 (node1, pid 4242)", "ranks 0-6,8", "4 ranks (...)"; those without a rank by name.
std::string list_sources(const RankMap& rank_map, std::span<const std::uint32_t> sources);

/// "rank 3", "ranks 0-6,8-15"; long lists are cut.
std::string list_ranks(const RankList& ranks);
std::string list_ranks(const auto& ranks) {
  const std::set<int> ascending(ranks.begin(), ranks.end());
  return list_ranks(RankList(ascending));
}

const Process& process_of(const JobBook& book, std::uint32_t source);
/// The host of a source; empty if unknown.
const std::string& host_of(const JobBook& book, std::uint32_t source);

/// One rank's part in a communicator.
struct CommMember {
  std::uint32_t instance = kNoIndex;
  std::uint32_t source = kNoIndex;
  int rank = -1;  ///< in the communicator; -1: unknown
};

/// A communicator and its members.
struct JoinedComm : CommName {
  std::string recorded_as;          ///< see CommInstance
  bool ambiguous = false;           ///< several communicators that cannot be distinguished
  std::vector<CommMember> members;  ///< by rank
};

/// Communicators over all ranks, in order of creation. Pointers differ from process to process, so ranks are joined by
/// commId, children of a split by parent and color, others by size and order of creation.
std::vector<JoinedComm> join_communicators(const JobBook& book, const RankMap& rank_map);

}  // namespace busbar
