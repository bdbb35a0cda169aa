#pragma once

#include "driver/diagnose/joined_comms.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace busbar {

/// One rank's calls on a communicator, placed so that equal keys of two ranks
/// mean the same call.
struct PlacedCalls {
  const CommMember* member = nullptr;
  const CallStream* calls = nullptr;
  std::int64_t offset = 0;  ///< key of its first call, from 0; never negative

  std::int64_t begin() const { return offset + static_cast<std::int64_t>(calls->window_begin()); }
  std::int64_t end() const { return offset + static_cast<std::int64_t>(calls->size()); }
  const Call& at(std::int64_t key) const { return calls->at(static_cast<std::uint64_t>(key - offset)); }
};

struct CallAlignment {
  enum class How : std::uint8_t {
    ordinals,    ///< all logs begin with the communicator
    op_counts,   ///< NCCL's own count, where it is one (up to 2.26)
    best_shift,  ///< logs begin in the middle: where they agree most
    none,        ///< cannot be compared
  };
  How how = How::none;
  bool certain = true;  ///< where calls end can be compared too
  std::vector<PlacedCalls> streams;
};

/// `reliable_op_count`: NCCL's version is known and not above 2.26;
/// `unknown_version`: it may be.
CallAlignment align_calls(const JobBook& book, const JoinedComm& comm, bool reliable_op_count, bool unknown_version);

/// A call's number for people: "#412", from 1 as the watchdog and PyTorch's SeqNum count; where calls are matched by
/// opCount "opCount 19b", in hexadecimal as the log has it.
std::string call_number(const CallAlignment& alignment, std::int64_t key);

/// The first call in which ranks differ.
struct Divergence {
  std::int64_t key = 0;
  std::optional<std::int64_t> not_before;          ///< set: it lies in [not_before, key], where calls are no
                                                   ///< longer kept whole
  bool tie = false;                                ///< no majority
  bool order = false;                              ///< the same calls in another order
  std::int64_t shift = 0;                          ///< the deviating ranks' calls are the others' this
                                                   ///< many calls later (or earlier)
  std::vector<std::uint32_t> majority, deviating;  ///< indices into streams
  std::string differs;                             ///< "count 53 instead of 25503912"
  std::string majority_call, deviating_call;
};

std::optional<Divergence> first_divergence(const CallAlignment& alignment, const Words& words);

/// "AllReduce count 1024 datatype 7 op 0".
std::string describe_call(const Call& call, const Words& words);

}  // namespace busbar
