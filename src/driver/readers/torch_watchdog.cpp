#include "driver/readers/torch_watchdog.h"

#include "common/base/text.h"
#include "driver/rules/line_rules.h"

#include <algorithm>

namespace busbar {

bool parse_torch_line(std::string_view line, LogLine& out) {
  const LineRules& rules = builtin_line_rules();
  LineShape said = rules.shape_in("watchdog", line);
  if (said.key.empty()) return false;
  const LineShape who = rules.shape_in("watchdog-origins", said.text("before"));
  out = {};
  out.origin.timestamp = who.text("time");
  out.origin.decoration = who.text("decoration");
  const int rank = who.parts.contains("job") ? who.number("job") : who.number("rank");
  out.fact = TorchWork{rank, who.text("group"), std::move(said), line};
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
  const LineShape& said = work.said;
  TorchState added;
  if (said.key == "timed-out") {
    added.timed_out_seq = said.number<std::int64_t>("seq");
    added.op = std::string(said.text("op").substr(0, 100));
    added.numel_in = said.number<std::int64_t>("in");
    added.numel_out = said.number<std::int64_t>("out");
    added.file = file;
    added.line = line;
  }
  added.signalled = mentions(work.line, "dump signal");  // "Received a dump signal due to a collective timeout"
  // It may follow an unfinished line of another process.
  const std::size_t begin = std::min({work.line.find("[rank"), work.line.find("[E"), work.line.find("[Rank")});
  added.example = std::string(work.line.substr(begin == kNotFound ? 0 : begin, 300));
  added.last_enqueued = said.number<std::int64_t>("enqueued");
  added.last_completed = said.number<std::int64_t>("completed");
  // PyTorch 2.3 prints counters that were never set: nothing is complete that was not enqueued.
  if (added.last_enqueued >= 0 && added.last_completed > added.last_enqueued) added.last_completed = -1;
  const std::pair key(std::string(work.group.substr(0, 100)), work.rank);
  constexpr std::size_t kMost = 1 << 18;
  if (states.size() < kMost || states.contains(key)) merge_torch_state(states[key], added);
}

}  // namespace busbar
