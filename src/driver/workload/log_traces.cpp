#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/read_file.h"
#include "common/base/text.h"
#include "driver/readers/call_records.h"
#include "driver/readers/log_files.h"
#include "driver/readers/log_line.h"
#include "driver/rules/line_rules.h"
#include "driver/workload/trace_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>

namespace busbar {
namespace {

/// A communicator of one process, and the sends and receives that may become one alltoall.
struct LogComm {
  std::size_t rank_index = 0;  ///< of the ranks of the file
  std::uint32_t group = 0;
  int rank = -1, nranks = -1;
  std::vector<CallShape> run;
  std::uint64_t op_count = 0;  ///< of the run
};

class CallLog {
 public:
  explicit CallLog(const InputFile& file) : file_(file) {}

  std::vector<TraceRank> read() {
    const LogFile read = read_log_file(file_.opens, [this](const LogLine& line, std::uint64_t) { take(line); });
    for (auto& [key, comm] : comms_) end_run(comm);
    for (TraceRank& rank : ranks_) {
      mark_lost_types(rank);
      rank.source.nbytes = read.bytes / ranks_.size();
      rank.source.version = version_;
      rank.source.kind = by_inspector_ ? "Inspector log" : "NCCL log";
      rank.source.calls = rank.calls.size();
      if (rank.rank < 0) rank.rank = file_name_rank(file_.path.filename().string());
      if (!rank.calls.empty()) find_steps(rank);
      add_once(rank.remarks, read.trouble);
    }
    std::erase_if(ranks_, [](const TraceRank& rank) { return rank.calls.empty(); });
    if (captured_ && !ranks_.empty())
      ranks_[0].remarks.push_back("calls were captured into CUDA graphs: replays write no lines and are not counted");
    if (messages_ > 0 && !ranks_.empty())
      ranks_[0].left_out["sends and receives of NCCL's Inspector, which are not read"] = messages_;
    if (by_inspector_)
      ranks_.at(0).remarks.push_back(
          "NCCL's Inspector omits calls below 8 KiB, sends, receives and alltoall by default, and records no type");
    return std::move(ranks_);
  }

 private:
  void take(const LogLine& line) {
    if (const auto* call = std::get_if<CollCall>(&line.fact)) return take_call(line.origin, *call);
    if (const LineShape* init = line.shape("init")) return take_init(line.origin, *init);
    if (const LineShape* version = line.shape("version"); version != nullptr && version_.empty())
      version_ = printable(version->text("nccl"));
    const auto* other = std::get_if<OtherLine>(&line.fact);
    if (other == nullptr) return;
    if (other->nccl)
      captured_ = captured_ || mentions(other->text, "is being captured");
    else if (const auto inspected = read_inspector_line(other->text))
      take_inspected(*inspected);
    else if (mentions(other->text, "\"p2p_perf\""))
      ++messages_;
  }

  std::string process_of(const LogOrigin& origin) const {
    return origin.pid < 0 ? decoration_label(origin.decoration) : fmt::format("{}:{}", origin.host, origin.pid);
  }

  std::size_t rank_index(const std::string& key) {
    const auto [place, is_new] = rank_places_.try_emplace(key, ranks_.size());
    if (is_new) ranks_.emplace_back();
    return place->second;
  }

  void take_init(const LogOrigin& origin, const LineShape& init) {
    const std::uint64_t pointer = pointer_in(init, "comm"), id = pointer_in(init, "id");
    const int its_rank = init.number("rank"), nranks = init.number("nranks");
    if (pointer == 0 || nranks <= 0) return;
    const std::string process = process_of(origin);
    LogComm& comm = comms_[{process, pointer}];
    if (comm.nranks == nranks && comm.rank == its_rank) return;
    end_run(comm);  // of one that was destroyed
    comm.rank = its_rank;
    // A process with several GPUs has a handle for each rank of one communicator.
    begin(comm, process, id == 0 ? 0 : handles_[{process, id}]++, id, nranks);
  }

  void begin(LogComm& comm, const std::string& process, std::size_t handle, std::uint64_t id, int nranks) {
    comm.rank_index = rank_index(fmt::format("{}#{}", process, handle));
    comm.nranks = nranks;
    TraceRank& rank = ranks_[comm.rank_index];
    if (comm.rank >= 0 && nranks > rank.nranks) {
      rank.nranks = nranks;
      rank.rank = comm.rank;
    }
    comm.group = rank.group({id != 0 ? fmt::format("{:#x}", id) : unnamed(rank, nranks), "", nranks, {}, id == 0});
  }

  /// By size and order of creation.
  std::string unnamed(TraceRank& rank, int nranks) {
    add_once(rank.remarks,
             "the log does not name communicators (no lines of INIT, or NCCL before 2.16): their calls were not "
             "matched over ranks");
    return fmt::format("of {} ranks, {}", nranks, ++unnamed_[{&rank - ranks_.data(), nranks}]);
  }

  LogComm& comm_of(const LogOrigin& origin, const CollCall& call) {
    const std::string process = process_of(origin);
    const auto [place, is_new] = comms_.try_emplace({process, call.comm});
    if (is_new) begin(place->second, process, 0, 0, call.nranks);
    return place->second;
  }

  void take_call(const LogOrigin& origin, const CollCall& call) {
    LogComm& comm = comm_of(origin, call);
    TraceRank& rank = ranks_[comm.rank_index];
    const TraceType type = type_of(call.dtype);
    CallShape shape{.call = kind_of(call.op), .dtype = type.name, .via = "nccl"};
    const std::int64_t nranks = std::max(comm.nranks, call.nranks);
    const std::int64_t count = call.count > std::uint64_t{1} << 58 ? -1 : static_cast<std::int64_t>(call.count);
    set_sizes(shape, bytes_of(count, type.size), nranks > 0 ? nranks : -1);
    if (const Collective* known = collective_of(shape.call); known != nullptr && known->has_op)
      shape.op = reduction_of(call.redop);
    const auto root = static_cast<int>(std::clamp<std::int64_t>(call.root, -1, 1 << 24));
    if (is_rooted(shape.call) && root >= 0) shape.root = root;
    if (is_message(shape.call)) {
      if (root >= 0) shape.peer = root;
      return take_message(comm, std::move(shape), call.op_count);
    }
    end_run(comm);
    if (shape.call == CommKind::unknown) ++rank.left_out[fmt::format("of an unknown kind ({})", printable(call.op))];
    rank.add_call(shape, comm.group);
  }

  /// `part`: of one rank or peer.
  static void set_sizes(CallShape& shape, std::optional<std::uint64_t> part, std::int64_t nranks) {
    const std::optional<std::uint64_t> whole = part == 0U && nranks > 0 ? part : bytes_of(nranks, part.value_or(0));
    const auto [in, out] = parts_of(shape.call);
    shape.in_bytes = in > 1 ? whole : part;
    shape.out_bytes = out > 1 ? whole : part;
  }

  void take_message(LogComm& comm, CallShape shape, std::uint64_t op_count) {
    const bool again =
        std::ranges::any_of(comm.run, [&](const CallShape& m) { return m.call == shape.call && m.peer == shape.peer; });
    constexpr std::size_t kLongestRun = 1 << 16;
    if (again || comm.op_count != op_count || comm.run.size() >= kLongestRun) end_run(comm);
    comm.op_count = op_count;
    comm.run.push_back(std::move(shape));
  }

  /// A run of sends and receives is an alltoall if the rank exchanges data with itself too, as libraries do then, or
  /// with all others of more than two. A peer that is missing got nothing.
  void end_run(LogComm& comm) {
    if (comm.run.empty()) return;
    TraceRank& rank = ranks_[comm.rank_index];
    const std::vector<CallShape> run = std::exchange(comm.run, {});
    std::set<int> to, from;
    std::uint64_t in = 0, out = 0;
    std::set<std::optional<std::uint64_t>> sizes;
    for (const CallShape& message : run) {
      const bool sends = message.call == CommKind::send;
      (sends ? to : from).insert(message.peer.value_or(-1));
      (sends ? in : out) += message.in_bytes.value_or(0);
      sizes.insert(message.in_bytes);
    }
    const auto all_others = static_cast<std::size_t>(std::max(comm.nranks - 1, 2));
    const bool with_itself = comm.rank >= 0 && to.contains(comm.rank) && from.contains(comm.rank) && comm.nranks > 1;
    if (!with_itself && (to.size() < all_others || from.size() < all_others)) {
      for (const CallShape& message : run) rank.add_call(message, comm.group);
      return;
    }
    CallShape shape = run.front();
    const bool equal = sizes.size() == 1 && to.size() == from.size() && std::ssize(to) == comm.nranks;
    shape.call = equal ? CommKind::alltoall : CommKind::alltoallv;
    shape.peer.reset();
    shape.in_bytes = in;
    shape.out_bytes = out;
    rank.add_call(shape, comm.group);
    rank.left_out["sends and receives (counted as alltoall)"] += run.size();
  }

  /// NCCL 2.7 to 2.21 writes bytes in the place of elements for AllGather and Broadcast.
  void mark_lost_types(TraceRank& rank) const {
    const auto loses = [](const CallShape& key) {
      return key.call == CommKind::all_gather || key.call == CommKind::broadcast;
    };
    // Without a version: if these alone are bytes.
    bool lost = false;
    for (const TraceCallKey& key : rank.operations) lost |= !loses(key) && key.dtype != "int8" && !key.dtype.empty();
    for (const TraceCallKey& key : rank.operations) lost &= !loses(key) || key.dtype == "int8";
    if (version_.starts_with("2.")) {
      const int minor = leading_number<int>(std::string_view(version_).substr(2)).value_or(-1);
      lost = minor >= 7 && minor < 22;
    }
    for (TraceCallKey& key : rank.operations) {
      if (lost && loses(key) && key.dtype == "int8") key.dtype = "bytes";
    }
  }

  void take_inspected(const InspectorCall& call) {
    by_inspector_ = true;
    TraceRank& rank = ranks_[rank_index(call.pid >= 0 ? fmt::format("{}:{}#0", call.host, call.pid)
                                                      : fmt::format("rank {}", call.rank))];
    if (call.nranks > rank.nranks) {
      rank.nranks = call.nranks;
      rank.rank = call.rank;
    }
    CallShape shape{.call = kind_of(call.op), .via = "nccl"};
    // Unlike those of the calls themselves, sizes of alltoall, gather and scatter are totals here.
    const bool is_total =
        shape.call == CommKind::alltoall || shape.call == CommKind::gather || shape.call == CommKind::scatter;
    set_sizes(shape, call.nbytes, is_total ? 1 : call.nranks);
    TraceCall& counted = rank.add_call(shape, rank.group({call.comm, "", call.nranks, {}, true}));
    if (call.time_s >= 0 && call.time_s < 1e6) counted.time_ns = std::llround(1e9 * call.time_s);
  }

  const InputFile& file_;
  std::vector<TraceRank> ranks_;
  std::map<std::string, std::size_t> rank_places_;
  std::map<std::pair<std::string, std::uint64_t>, LogComm> comms_;        // by process and pointer
  std::map<std::pair<std::string, std::uint64_t>, std::size_t> handles_;  // by process and communicator
  std::map<std::pair<std::ptrdiff_t, int>, int> unnamed_;                 // communicators by rank and size
  std::string version_;
  std::uint64_t messages_ = 0;  // of the Inspector
  bool captured_ = false, by_inspector_ = false;
};

// Dumps of PyTorch's Flight Recorder.

/// The last number in the file's name: "nccl_trace_rank_3", "dump_3.json", "rank3.json.gz".
int rank_of_name(const InputFile& file) {
  const std::string name = file.path.filename().string();
  const int rank = file_name_rank(name);
  return rank >= 0 ? rank : number_of<int>(builtin_line_rules().facts_in("dump-names", name)["rank"]).value_or(-1);
}

TraceGroup group_in(const TorchDump::Group& group) {
  return {group.name, group.description, group.ranks.empty() ? -1 : static_cast<int>(group.ranks.size()), group.ranks};
}

TraceRank rank_of(const TorchDump& dump, const InputFile& file) {
  TraceRank rank;
  rank.rank = dump.rank >= 0 ? dump.rank : rank_of_name(file);
  rank.source.kind = "Flight Recorder dump";
  rank.source.version = dump.nccl_version;
  bool any_ended = false;
  for (const TorchDump::Group& group : dump.groups) {
    if (contains(group.ranks, rank.rank)) rank.group(group_in(group));
    if (group.description == "default_pg" && !group.ranks.empty()) rank.nranks = group_in(group).size;
  }
  if (dump.lost > 0) rank.left_out["calls that the dump no longer has (of its buffer, or that had ended)"] = dump.lost;
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
    if (is_message(shape.call) && entry.peer >= 0) shape.peer = entry.peer;
    TraceCall& call = rank.add_call(shape, rank.group(group_in(dump.groups[entry.group])));
    call.seq = entry.seq;
    if (entry.time_s >= 0 && entry.time_s < 1e6) call.time_ns = std::llround(1e9 * entry.time_s);
    any_ended = any_ended || entry.ended;
  }
  if (any_ended) {
    find_steps(rank);
  } else {
    rank.remarks.push_back("the dump holds only calls that had not ended: groups and sizes, but no step");
  }
  rank.source.calls = rank.calls.size();
  return rank;
}

}  // namespace

std::vector<TraceRank> read_call_log(const InputFile& file) { return CallLog(file).read(); }

std::vector<TraceRank> read_flight_dump(const InputFile& file) {
  const std::string text = read_piece(file.opens, kMostFileBytes + 1).text;
  std::vector<TraceRank> ranks;
  for (const TorchDump& dump : read_torch_dumps(text, file.path.string())) {
    ranks.push_back(rank_of(dump, file));
    ranks.back().source.nbytes = text.size();
  }
  return ranks;
}

}  // namespace busbar
