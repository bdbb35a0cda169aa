#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace busbar {

/// Interns the few words that calls are made of (operations, datatypes): a number for each.
class Words {
 public:
  static constexpr std::uint8_t kOther = 255;  ///< more words than any NCCL has: hostile input

  std::uint8_t id(std::string_view word);
  const std::string& text(std::uint8_t id) const;
  std::size_t size() const { return texts_.size(); }
  /// Of the text, so that books with different numbers can be compared.
  std::uint64_t hash(std::uint8_t id) const;

 private:
  std::vector<std::string> texts_;
  std::vector<std::uint64_t> hashes_;
};

/// A call, and its place among the calls.
struct Call {
  std::uint64_t count = 0;
  std::uint32_t op_count = 0;
  std::uint32_t when = 0;  ///< number of the call among all of its process
  std::int32_t root = -1;  ///< -1: has none
  std::uint8_t op = 0, dtype = 0, redop = 0;

  /// What ranks must agree on.
  auto terms() const { return std::tuple(count, root, op, dtype, redop); }
};

/// NCCL's opCount over the lines of a rank on a communicator, Send and Recv among them.
struct OpCounts {
  std::uint64_t first = 0, last = 0;
  std::uint64_t alike = 0;        ///< lines with `last`: the calls of a group have the same
  std::uint64_t passed_over = 0;  ///< counted without a line: lines are missing, or a CUDA graph was replayed

  void see(std::uint64_t op_count);
  /// Appends what follows in another log of the same rank.
  void append(const OpCounts& later);
};

/// The collective calls of one rank on one communicator, in bounded memory: the last 512 in full, of all before them
/// hashes at ordinals whose distance doubles as the stream grows, so that two streams can be compared from the start.
class CallStream {
 public:
  static constexpr std::size_t kWindow = 512;
  static constexpr std::size_t kCheckpoints = 64;
  static constexpr std::uint64_t kFirstStep = 64;

  void add(const Call& call, const Words& words);
  /// Appends what follows in another log of the same rank; `when` of its calls grows by `when_offset`.
  void append(const CallStream& later, std::uint32_t when_offset, const Words& words);

  std::uint64_t size() const { return size_; }
  std::uint64_t window_begin() const { return size_ - ring_.size(); }
  /// Calls window_begin() to size() - 1.
  const Call& at(std::uint64_t ordinal) const { return ring_[ordinal % kWindow]; }
  /// Of every call so far the opCount was one more than that of the call before.
  bool consecutive() const { return consecutive_; }
  /// Of every call so far the opCount was more than that of the call before.
  bool increasing() const { return increasing_; }
  std::uint32_t first_op_count() const { return first_op_count_; }

  /// The hash of the first `ordinal` calls is checkpoint `ordinal` / checkpoint_step() - 1.
  std::uint64_t checkpoint_step() const { return step_; }
  const std::vector<std::uint64_t>& checkpoints() const { return checkpoints_; }

  /// Renumbers the words of a stream that another book gathered.
  void translate(const std::vector<std::uint8_t>& ids);

 private:
  std::vector<Call> ring_;
  std::vector<std::uint64_t> checkpoints_;
  std::uint64_t size_ = 0;
  std::uint64_t chain_ = 0;
  std::uint64_t step_ = kFirstStep;
  std::uint32_t first_op_count_ = 0;
  std::uint32_t last_op_count_ = 0;
  bool consecutive_ = true;
  bool increasing_ = true;
  bool chained_ = true;  ///< no call is missing in chain_
};

}  // namespace busbar
