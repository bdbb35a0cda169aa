#pragma once

// Where the ranks of one communicator meet to move their data: memory that their processes share, and each other's
// memory, which they read directly.

#include "fakes/nccl_arithmetic.h"

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace real_nccl {

inline constexpr int kMostRanks = 64;

enum class Kind { all_reduce, reduce, reduce_scatter, broadcast, all_gather, all_to_all, gather, scatter };

/// A rank's part of a collective, or one message of a pair; `posted` ahead of `taken` says that it may be read.
struct Post {
  std::atomic<std::uint64_t> posted, taken;
  pid_t process;
  const void* data;
  std::size_t nbytes;
  Kind kind;
  fake_nccl::Call call;
};

struct Board {
  std::atomic<int> attached;
  Post collectives[kMostRanks];
  Post messages[kMostRanks][kMostRanks];  ///< of the sender to the receiver
};

/// One rank's communicator. Its board is found by its key, which all of its ranks make alike.
struct Member {
  std::string key;
  int rank = -1, nranks = 0;  ///< known at its first use
  Board* board = nullptr;
  std::uint64_t collectives = 0;  ///< that have run
  std::atomic<bool> aborted{false};
  int splits = 0, shrinks = 0, grown = 0;  ///< communicators made of it

  ~Member();
  void attach(int its_rank, int its_nranks);
  /// Until the condition holds; false: the communicator was aborted, and its kernels leave.
  template <class Condition>
  bool wait(Condition holds) const {
    for (int polls = 0; !holds(); ++polls) {
      if (aborted) return false;
      pause(polls);
    }
    return true;
  }
  static void pause(int polls);
};

/// The process that posted something is gone: its ranks wait for good, as NCCL's kernels would.
struct Gone {};

/// Reads [offset, offset + nbytes) of what was posted; throws Gone.
fake_nccl::Bytes fetch(const Post& post, std::size_t offset, std::size_t nbytes);

/// Files of this name in the folder that the ranks share (REAL_NCCL_FOLDER).
std::string shared_path(const std::string& name);

}  // namespace real_nccl
