#include "driver/diagnose/job_book.h"

#include <algorithm>
#include <bit>

namespace busbar {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  return (std::rotl(hash, 23) ^ value) * 0x9e3779b97f4a7c15ULL;
}

}  // namespace

std::uint8_t Words::id(std::string_view word) {
  const auto known = std::ranges::find(texts_, word);
  if (known != texts_.end()) return static_cast<std::uint8_t>(known - texts_.begin());
  if (texts_.size() == kOther) return kOther;
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const unsigned char c : word) hash = (hash ^ c) * 0x100000001b3ULL;
  texts_.emplace_back(word.substr(0, 64));
  hashes_.push_back(hash);
  return static_cast<std::uint8_t>(texts_.size() - 1);
}

const std::string& Words::text(std::uint8_t id) const {
  static const std::string other = "?";
  return id < texts_.size() ? texts_[id] : other;
}

std::uint64_t Words::hash(std::uint8_t id) const { return id < hashes_.size() ? hashes_[id] : 0; }

void OpCounts::see(std::uint64_t op_count) {
  if (alike == 0) first = op_count;
  // A launch has at least one line.
  if (alike > 0 && op_count > last + alike) passed_over += op_count - last - alike;
  alike = op_count == last ? alike + 1 : 1;
  last = op_count;
}

void OpCounts::append(const OpCounts& later) {
  if (later.alike == 0) return;
  see(later.first);
  last = later.last;
  alike = later.alike;
  passed_over += later.passed_over;
}

void CallStream::add(const Call& call, const Words& words) {
  if (size_ == 0) {
    first_op_count_ = call.op_count;
  } else if (call.op_count != last_op_count_ + 1) {
    consecutive_ = false;
    increasing_ = increasing_ && call.op_count > last_op_count_;
  }
  last_op_count_ = call.op_count;
  if (ring_.size() < kWindow) {
    ring_.push_back(call);
  } else {
    ring_[size_ % kWindow] = call;
  }
  ++size_;
  if (!chained_) return;
  chain_ = mix(mix(chain_, call.count ^ words.hash(call.op)),
               words.hash(call.dtype) + 3 * words.hash(call.redop) + static_cast<std::uint32_t>(call.root));
  if ((size_ & (step_ - 1)) != 0) return;  // a power of two
  checkpoints_.push_back(chain_);
  if (checkpoints_.size() < kCheckpoints) return;
  for (std::size_t i = 0; i < kCheckpoints / 2; ++i) checkpoints_[i] = checkpoints_[2 * i + 1];
  checkpoints_.resize(kCheckpoints / 2);
  step_ *= 2;
}

void CallStream::append(const CallStream& later, std::uint32_t when_offset, const Words& words) {
  if (later.size_ == 0) return;
  if (size_ == 0) {
    *this = later;
    for (Call& call : ring_) call.when += when_offset;
    return;
  }
  if (const std::uint64_t unseen = later.window_begin(); unseen > 0) {
    // The calls between the two windows are not kept: what follows them can be compared by the window only.
    chained_ = false;
    consecutive_ = consecutive_ && later.consecutive_ && later.first_op_count_ == last_op_count_ + 1;
    increasing_ = increasing_ && later.increasing_ && later.first_op_count_ > last_op_count_;
    ring_.resize(kWindow);
    size_ += unseen;
    last_op_count_ = later.at(unseen).op_count - 1;
  }
  for (std::uint64_t i = later.window_begin(); i < later.size_; ++i) {
    Call call = later.at(i);
    call.when += when_offset;
    add(call, words);
  }
}

void CallStream::translate(const std::vector<std::uint8_t>& ids) {
  for (Call& call : ring_) {
    for (std::uint8_t* id : {&call.op, &call.dtype, &call.redop}) *id = *id < ids.size() ? ids[*id] : Words::kOther;
  }
}

}  // namespace busbar
