#include "common/base/error.h"
#include "common/base/read_file.h"
#include "common/base/text.h"
#include "driver/readers/call_records.h"
#include "driver/readers/log_line.h"
#include "driver/rules/line_rules.h"
#include "driver/workload/trace_readers.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace busbar {
namespace {

/// The last number in the file's name: "nccl_trace_rank_3", "dump_3.json", "rank3.json.gz".
int rank_of_name(const InputFile& file) {
  const std::string name = file.path.filename().string();
  const int rank = file_name_rank(name);
  return rank >= 0 ? rank : number_of<int>(builtin_line_rules().facts_in("dump-names", name)["rank"]).value_or(-1);
}

/// "send 0->3", "recv 0<-3": the peer is the second, a rank in the group.
std::optional<int> peer_in(std::string_view op) { return number_of<int>(op.substr(op.find_last_of("<->") + 1)); }

TraceRank rank_of(const TorchDump& dump, const InputFile& file) {
  TraceRank rank;
  rank.rank = dump.rank >= 0 ? dump.rank : rank_of_name(file);
  rank.source.kind = "Flight Recorder dump";
  rank.source.version = dump.nccl_version;
  bool any_ended = false;
  for (const TorchDump::Group& group : dump.groups) {
    const bool mine = std::ranges::find(group.ranks, rank.rank) != group.ranks.end();
    if (mine) rank.group({group.name, group.description, static_cast<int>(group.ranks.size()), group.ranks});
    if (group.description == "default_pg" && !group.ranks.empty()) rank.nranks = static_cast<int>(group.ranks.size());
  }
  for (const TorchDump::Entry& entry : dump.entries) {
    if (entry.op == "coalesced") {  // its members are recorded too
      ++rank.left_out["coalesced (a wrapper of calls that are counted)"];
      continue;
    }
    CallShape shape{.call = kind_of(entry.op.substr(0, entry.op.find(' '))), .via = "c10d"};
    if (shape.call == CommKind::barrier) {
      ++rank.left_out["barrier"];
      continue;
    }
    if (shape.call == CommKind::alltoall) shape.call = CommKind::alltoallv;  // rows are not recorded
    const TraceType in = type_of(entry.in_dtype),
                    out = type_of(entry.out_dtype.empty() ? entry.in_dtype : entry.out_dtype);
    shape.dtype = in.name;
    shape.in_bytes = bytes_of(static_cast<std::int64_t>(entry.in_elements), in.size);
    shape.out_bytes = bytes_of(static_cast<std::int64_t>(entry.out_elements), out.size);
    if (is_message(shape.call)) shape.peer = peer_in(entry.op);
    const TorchDump::Group& group = dump.groups[entry.group];
    const int size = group.ranks.empty() ? -1 : static_cast<int>(group.ranks.size());
    TraceCall& call = rank.add_call(shape, rank.group({group.name, group.description, size, group.ranks}));
    call.seq = entry.seq;
    if (entry.time_s >= 0 && entry.time_s < 1e6) call.time_ns = std::llround(1e9 * entry.time_s);
    any_ended = any_ended || entry.ended;
  }
  if (any_ended) {
    find_steps(rank);
  } else {
    rank.is_tail = true;
    rank.remarks.push_back("the dump holds only calls that had not ended: groups and sizes, but no step");
  }
  rank.source.calls = rank.calls.size();
  return rank;
}

}  // namespace

std::vector<TraceRank> read_flight_dump(const InputFile& file) {
  std::string trouble, text;
  const NextBytes next = blocks_of(file, trouble);
  for (std::string_view block = next(); !block.empty(); block = next()) {
    text += block;
    if (text.size() > kMostFileBytes)
      throw_bad_config(file.path.string() + ": a dump of PyTorch's Flight Recorder that is too large");
  }
  std::vector<TraceRank> ranks;
  for (const TorchDump& dump : read_torch_dumps(text, file.path.string())) {
    ranks.push_back(rank_of(dump, file));
    ranks.back().source.nbytes = text.size();
    if (!trouble.empty()) ranks.back().remarks.push_back(trouble);
  }
  return ranks;
}

}  // namespace busbar
