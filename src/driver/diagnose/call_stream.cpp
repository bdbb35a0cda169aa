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
  texts_.emplace_back(word.substr(0, 64));
  return static_cast<std::uint8_t>(texts_.size() - 1);
}

const std::string& Words::text(std::uint8_t id) const {
  static const std::string other = "?";
  return id < texts_.size() ? texts_[id] : other;
}

void OpCounts::see(std::uint64_t op_count) {
  if (alike == 0) first = op_count;
  // A launch has at least one line.
  if (alike > 0 && op_count > last + alike) passed_over += op_count - last - alike;
  alike = op_count == last ? alike + 1 : 1;
  last = op_count;
}

void CallStream::add(const Call& call) {
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
  const std::uint64_t words = std::uint64_t{call.op} << 16U | std::uint64_t{call.dtype} << 8U | call.redop;
  chain_ = mix(mix(chain_, call.count), words << 32U | static_cast<std::uint32_t>(call.root));
  if ((size_ & (step_ - 1)) != 0) return;  // a power of two
  checkpoints_.push_back(chain_);
  if (checkpoints_.size() < kCheckpoints) return;
  for (std::size_t i = 0; i < kCheckpoints / 2; ++i) checkpoints_[i] = checkpoints_[2 * i + 1];
  checkpoints_.resize(kCheckpoints / 2);
  step_ *= 2;
}

}  // namespace busbar
