#pragma once

#include "driver/diagnose/job_book.h"
#include "driver/diagnose/rank_map.h"

#include <cstdint>
#include <string>
#include <vector>

namespace busbar {

/// One rank's part in a communicator.
struct CommMember {
  std::uint32_t instance = kNone;
  std::uint32_t actor = kNone;
  int rank = -1;  ///< in the communicator; -1: unknown
};

/// A communicator over all ranks whose logs were given.
struct JoinedComm {
  std::string name;        ///< "communicator 0x3470ca318760efc8 (2 ranks)"
  std::string id;          ///< commId; empty: joined otherwise
  bool heuristic = false;  ///< by size and order of creation
  bool child = false;
  bool ambiguous = false;  ///< several communicators that cannot be distinguished
  int nranks = -1;
  int nnodes = -1;
  std::vector<CommMember> members;  ///< by rank
};

/// Communicators over all ranks, in order of creation. Pointers differ from process to process, so ranks are joined by
/// commId, children of a split by parent and color, others by size and order of creation.
std::vector<JoinedComm> join_communicators(const JobBook& book, const RankMap& rank_map);

}  // namespace busbar
