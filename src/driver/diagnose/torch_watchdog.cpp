#include "driver/diagnose/torch_watchdog.h"

#include "common/base/log_scan.h"
#include "common/base/text.h"
#include "driver/rules/line_rules.h"

#include <algorithm>

namespace busbar {
namespace {

/// What is between the last `begin` and the next `end`.
std::string_view between_last(std::string_view text, std::string_view begin, std::string_view end) {
  const std::size_t at = text.rfind(begin);
  if (at == kNotFound) return {};
  text.remove_prefix(at + begin.size());
  const std::size_t stop = text.find(end);
  return stop == kNotFound ? std::string_view{} : text.substr(0, stop);
}

std::int64_t number(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  return leading_number<std::int64_t>(text).value_or(-1);
}

std::int64_t number_behind(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  return at == kNotFound ? -1 : number(text.substr(at + key.size()));
}

/// The value of "key=value," or "key=value)". Where nothing follows, the line was cut, perhaps in the value; a blank in
/// it is where a broken line was joined.
std::string_view whole_field(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == kNotFound) return {};
  text.remove_prefix(at + key.size());
  const std::size_t end = text.find_first_of(",) ");
  return end == kNotFound || text[end] == ' ' ? std::string_view{} : text.substr(0, end);
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == kNotFound;
}

/// "[PG ID 0 PG GUID 0(default_pg) Rank 3]" (2.5 on), "[PG 1 Rank 3]" (2.3), "[Rank 3]": the last in front of the
/// message, because a message that is passed on carries its own.
void read_group_and_rank(std::string_view before, TorchWork& work) {
  const std::string_view job = between_last(before, "[rank", "]");
  const std::size_t at = before.rfind("Rank ");
  if (is_digits(job)) {
    work.rank = static_cast<int>(number(job));
  } else if (at != kNotFound) {
    const std::int64_t rank = number(before.substr(at + 5));
    if (rank >= 0 && rank < INT32_MAX) work.rank = static_cast<int>(rank);
  }
  if (at == kNotFound) return;
  const std::size_t group = before.rfind("[PG ", at);
  if (group == kNotFound || before.find(']', group) < at) return;
  std::string_view text = before.substr(group + 4, at - group - 4);
  // The GUID is the same on all ranks; the id is each process's own.
  const std::size_t guid = text.find("PG GUID ");
  if (guid != kNotFound) text.remove_prefix(guid + 8);
  while (text.ends_with(' ')) text.remove_suffix(1);
  work.group = text;
}

/// "WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600029 milliseconds ..."
void read_timeout(std::string_view text, TorchWork& work) {
  work.what = TorchWork::What::timed_out;
  const std::size_t ran = text.find(" ran for ");
  const std::string_view fields = text.substr(0, ran);
  work.seq = number(whole_field(fields, "SeqNum="));
  work.op = whole_field(fields, "OpType=");
  // "BROADCA[1": another process wrote into the line.
  if (!std::ranges::all_of(work.op, is_name)) work.op = {};
  work.numel_in = number(whole_field(fields, "NumelIn="));
  work.numel_out = number(whole_field(fields, "NumelOut="));
  work.timeout_ms = number(whole_field(fields, "Timeout(ms)="));
  if (ran != kNotFound) work.ran_ms = number(text.substr(ran + 9));
}

/// "last enqueued NCCL work: 9, last completed NCCL work: 8" (2.3 on), "last enqueued work: ..." (2.7 on); "Last" where
/// a sentence begins with it.
bool read_last_state(std::string_view text, TorchWork& work) {
  constexpr std::string_view kCompleted = "last completed ";
  const std::size_t completed = text.find(kCompleted);
  if (completed == kNotFound) return false;
  const std::size_t enqueued = text.rfind("ast enqueued ", completed);
  if (enqueued == kNotFound) return false;
  work.what = TorchWork::What::last_state;
  work.last_enqueued = number_behind(text.substr(enqueued, completed - enqueued), "work: ");
  work.last_completed = number_behind(text.substr(completed), "work: ");
  for (const std::string_view key :
       {"detected by watchdog at work: ", "work sequence id: ", "Timeout at NCCL work: "}) {
    const std::int64_t seq = number_behind(text.substr(0, enqueued), key);
    if (seq >= 0) work.seq = seq;
  }
  return true;
}

/// glog's "[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607]" and, up to 2.2, "[E ProcessGroupNCCL.cpp:737]".
void read_origin(std::string_view before, LogOrigin& origin) {
  std::size_t begin = before.find("[rank");
  if (begin == kNotFound) begin = before.size();
  const std::size_t file = before.find("ProcessGroupNCCL.cpp:");
  if (file != kNotFound) {
    const std::size_t open = before.rfind('[', file);
    if (open != kNotFound) {
      begin = begin < open ? begin : open;
      std::string_view time = before.substr(open + 1, file - open - 1);
      if (time.size() > 2) {
        time.remove_prefix(1);
        while (time.ends_with(' ')) time.remove_suffix(1);
        origin.timestamp = time;
      }
    }
  } else {
    const std::size_t group = before.find("[PG ");
    const std::size_t rank = before.find("[Rank ");
    const std::size_t first = group < rank ? group : rank;
    begin = begin < first ? begin : first;
  }
  origin.decoration = before.substr(0, begin < before.size() ? begin : before.size());
}

}  // namespace

bool parse_torch_line(std::string_view line, LogLine& out) {
  TorchWork work;
  std::size_t message = line.find("ollective operation timeout:");
  // People break the line there.
  if (message != kNotFound && line.find_first_not_of(' ', message + 28) != kNotFound &&
      line.find("WorkNCCL(", message) == kNotFound)
    return false;
  if (message != kNotFound) {
    read_timeout(line.substr(message), work);
    // "[Rank 3] Watchdog caught c...", "[Rank 3] Caught c..." (blocking wait).
    read_group_and_rank(line.substr(0, message), work);
  } else {
    if (!read_last_state(line, work)) return false;
    message = line.find(']');
    const std::size_t enqueued = line.find("ast enqueued ");
    // The brackets of the prefix, not those of the message behind.
    const std::size_t rank = line.find(" Rank ");
    if (rank != kNotFound && rank < enqueued) message = line.find(']', rank);
    if (message == kNotFound || message > enqueued) return false;
    read_group_and_rank(line.substr(0, message + 1), work);
  }
  work.line = line;
  work.signalled = mentions(line, "dump signal");
  out = {};
  read_origin(line.substr(0, message), out.origin);
  out.fact = work;
  return true;
}

namespace {

// "0 PG GUID 0(default_pg) Rank 3": a rank in the name would make every rank a group of its own.
std::string group_name(std::string_view group) {
  const std::size_t rank = group.find(" Rank ");
  return std::string(group.substr(0, std::min<std::size_t>(rank, 100)));
}

}  // namespace

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
  TorchState told;
  if (work.what == TorchWork::What::timed_out) {
    told.timed_out_seq = work.seq;
    told.op = std::string(work.op.substr(0, 100));
    told.numel_in = work.numel_in;
    told.numel_out = work.numel_out;
    told.file = file;
    told.line = line;
  }
  told.signalled = work.signalled;
  // In front of it may stand anything that another process wrote without an end.
  const std::size_t begin = std::min({work.line.find("[rank"), work.line.find("[E"), work.line.find("[Rank")});
  told.example = std::string(work.line.substr(begin == kNotFound ? 0 : begin, 300));
  told.last_enqueued = work.last_enqueued;
  // PyTorch 2.3 prints counters that nobody set: nothing is complete that was not enqueued.
  const bool set = work.last_enqueued < 0 || work.last_completed <= work.last_enqueued;
  told.last_completed = set ? work.last_completed : -1;
  add({group_name(work.group), work.rank}, told);
}

void TorchBook::add(const std::pair<std::string, int>& key, const TorchState& told) {
  constexpr std::size_t kMost = 1 << 18;
  if (states.size() < kMost || states.contains(key)) merge_torch_state(states[key], told);
}

}  // namespace busbar
