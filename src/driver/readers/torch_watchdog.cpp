#include "driver/readers/torch_watchdog.h"

#include "common/base/log_scan.h"
#include "common/base/text.h"
#include "driver/rules/line_rules.h"

#include <algorithm>

namespace busbar {

bool parse_torch_line(std::string_view line, LogLine& out) {
  const LineRules& rules = builtin_line_rules();
  const LineShape said = rules.shape_in("watchdog", line);
  if (said.key.empty()) return false;
  const LineShape who = rules.shape_in("watchdog-origins", said.text("before"));
  TorchWork work;
  work.what = said.key == "timed-out" ? TorchWork::What::timed_out : TorchWork::What::last_state;
  work.rank = who.parts.contains("job") ? who.number("job") : who.number("rank");
  work.group = who.text("group");
  work.seq = said.number<std::int64_t>("seq");
  work.op = said.text("op");
  work.numel_in = said.number<std::int64_t>("in");
  work.numel_out = said.number<std::int64_t>("out");
  work.timeout_ms = said.number<std::int64_t>("limit");
  work.ran_ms = said.number<std::int64_t>("ran");
  work.last_enqueued = said.number<std::int64_t>("enqueued");
  work.last_completed = said.number<std::int64_t>("completed");
  work.line = line;
  work.signalled = mentions(line, "dump signal");
  out = {};
  out.origin.timestamp = who.text("time");
  out.origin.decoration = who.text("decoration");
  out.fact = work;
  return true;
}

int group_size(const TorchState& state) {
  const bool gathers = mentions(state.op, "ALLGATHER");
  const bool scatters = mentions(state.op, "REDUCE_SCATTER");
  if (!gathers && !scatters) return -1;
  const std::int64_t one = gathers ? state.numel_in : state.numel_out, all = gathers ? state.numel_out : state.numel_in;
  constexpr std::int64_t kMost = 1 << 20;
  return one > 0 && all > one && all % one == 0 && all / one < kMost ? static_cast<int>(all / one) : -1;
}

void merge_torch_state(TorchState& state, const TorchState& other) {
  state.signalled = state.signalled || other.signalled;
  if (state.example.empty() || (state.timed_out_seq < 0 && other.timed_out_seq >= 0)) state.example = other.example;
  if (other.timed_out_seq >= 0 && (state.timed_out_seq < 0 || other.timed_out_seq < state.timed_out_seq)) {
    state.timed_out_seq = other.timed_out_seq;
    state.op = other.op;
    state.numel_in = other.numel_in;
    state.numel_out = other.numel_out;
    state.file = other.file;
    state.line = other.line;
  }
  state.last_enqueued = std::max(state.last_enqueued, other.last_enqueued);
  state.last_completed = std::max(state.last_completed, other.last_completed);
}

void TorchBook::add(const TorchWork& work, std::size_t file, std::uint64_t line) {
  TorchState added;
  if (work.what == TorchWork::What::timed_out) {
    added.timed_out_seq = work.seq;
    added.op = std::string(work.op.substr(0, 100));
    added.numel_in = work.numel_in;
    added.numel_out = work.numel_out;
    added.file = file;
    added.line = line;
  }
  added.signalled = work.signalled;
  // It may follow an unfinished line of another process.
  const std::size_t begin = std::min({work.line.find("[rank"), work.line.find("[E"), work.line.find("[Rank")});
  added.example = std::string(work.line.substr(begin == kNotFound ? 0 : begin, 300));
  added.last_enqueued = work.last_enqueued;
  // PyTorch 2.3 prints counters that were never set: nothing is complete that was not enqueued.
  const bool set = work.last_enqueued < 0 || work.last_completed <= work.last_enqueued;
  added.last_completed = set ? work.last_completed : -1;
  add({std::string(work.group.substr(0, 100)), work.rank}, added);
}

void TorchBook::add(const std::pair<std::string, int>& key, const TorchState& added) {
  constexpr std::size_t kMost = 1 << 18;
  if (states.size() < kMost || states.contains(key)) merge_torch_state(states[key], added);
}

}  // namespace busbar
