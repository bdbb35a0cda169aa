#include "driver/diagnose/torch_book.h"

#include <algorithm>
#include <string_view>

namespace busbar {

// "0 PG GUID 0(default_pg) Rank 3": a rank in the name would make every rank a
// group of its own.
static std::string group_name(std::string_view group) {
  const std::size_t rank = group.find(" Rank ");
  return std::string(group.substr(0, std::min<std::size_t>(rank, 100)));
}

void merge_torch_state(TorchState& state, const TorchState& other) {
  if (other.timed_out_seq >= 0 && (state.timed_out_seq < 0 || other.timed_out_seq < state.timed_out_seq)) {
    state.timed_out_seq = other.timed_out_seq;
    state.op = other.op;
    state.numel_in = other.numel_in;
    state.numel_out = other.numel_out;
    state.timeout_ms = other.timeout_ms;
    state.file = other.file;
    state.line = other.line;
  }
  state.last_enqueued = std::max(state.last_enqueued, other.last_enqueued);
  state.last_completed = std::max(state.last_completed, other.last_completed);
}

void TorchBook::add(const TorchWork& work, std::size_t file, std::uint64_t line) {
  const std::pair<std::string, int> key{group_name(work.group), work.rank};
  if (states_.size() >= kStates && states_.find(key) == states_.end()) return;
  TorchState told;
  if (work.what == TorchWork::What::timed_out) {
    told.timed_out_seq = work.seq;
    told.op = std::string(work.op.substr(0, 100));
    told.numel_in = work.numel_in;
    told.numel_out = work.numel_out;
    told.timeout_ms = work.timeout_ms;
    told.file = file;
    told.line = line;
  }
  told.last_enqueued = work.last_enqueued;
  told.last_completed = work.last_completed;
  merge_torch_state(states_[key], told);
}

void TorchBook::merge(const TorchBook& other) {
  for (const auto& [key, state] : other.states_) {
    if (states_.size() < kStates || states_.find(key) != states_.end()) merge_torch_state(states_[key], state);
  }
}

}  // namespace busbar
