#include "driver/workload/log_traces.h"

#include "common/base/text.h"
#include "driver/readers/call_records.h"
#include "driver/readers/log_files.h"
#include "driver/readers/log_line.h"
#include "driver/rules/line_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <variant>

namespace busbar {
namespace {

/// A communicator of one process, and the sends and receives that may become one alltoall.
struct LogComm {
  std::size_t rank_index = 0;  ///< of the ranks of the file
  std::uint32_t group = 0;
  int rank = -1, nranks = -1;
  struct Message {
    bool sends = false;
    int peer = -1;
    TraceCallKey key;
  };
  std::vector<Message> run;
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
      if (captured_ && &rank == &ranks_.front()) {
        rank.remarks.push_back(
            "calls were captured into CUDA graphs: their replays write no lines and are not counted");
      }
      if (by_inspector_ && &rank == &ranks_.front()) {
        rank.remarks.push_back(
            "NCCL's Inspector omits calls below 8 KiB, sends, receives and alltoall by default, and records no type");
      }
      if (!read.trouble.empty()) rank.remarks.push_back(read.trouble);
    }
    std::erase_if(ranks_, [](const TraceRank& rank) { return rank.calls.empty(); });
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
  }

  std::string process_of(const LogOrigin& origin) const {
    if (origin.pid >= 0) return fmt::format("{}:{}", origin.host, origin.pid);
    return decoration_label(origin.decoration);
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
    const std::pair key(process, pointer);
    const auto known = comms_.find(key);
    if (known != comms_.end() && known->second.nranks == nranks && known->second.rank == its_rank) return;
    if (known != comms_.end()) {  // the pointer of one that was destroyed
      end_run(known->second);
      comms_.erase(known);
    }
    // A process with several GPUs has a handle for each rank of one communicator.
    const std::size_t handle = id == 0 ? 0 : handles_[{process, id}]++;
    LogComm& comm = comms_[key];
    comm.rank_index = rank_index(fmt::format("{}#{}", process, handle));
    comm.rank = its_rank;
    comm.nranks = nranks;
    TraceRank& rank = ranks_[comm.rank_index];
    if (nranks > rank.nranks) {
      rank.nranks = nranks;
      rank.rank = its_rank;
    }
    comm.group = rank.group({id != 0 ? fmt::format("{:#x}", id) : unnamed(rank, nranks), "", nranks, {}, id == 0});
  }

  /// By size and order of creation.
  static std::string unnamed(TraceRank& rank, int nranks) {
    const auto alike = std::ranges::count(rank.groups, nranks, &TraceGroup::size);
    constexpr std::string_view kUnnamed =
        "the log does not name communicators (no lines of INIT, or NCCL before 2.16): their calls were not matched "
        "over ranks";
    if (std::ranges::find(rank.remarks, kUnnamed) == rank.remarks.end()) rank.remarks.emplace_back(kUnnamed);
    return fmt::format("of {} ranks, {}", nranks, alike + 1);
  }

  LogComm& comm_of(const LogOrigin& origin, const CollCall& call) {
    const std::string process = process_of(origin);
    const auto [place, is_new] = comms_.try_emplace({process, call.comm});
    LogComm& comm = place->second;
    if (is_new) {
      comm.rank_index = rank_index(process + "#0");
      comm.nranks = call.nranks;
      TraceRank& rank = ranks_[comm.rank_index];
      comm.group = rank.group({unnamed(rank, call.nranks), "", call.nranks, {}, true});
    }
    return comm;
  }

  void take_call(const LogOrigin& origin, const CollCall& call) {
    LogComm& comm = comm_of(origin, call);
    TraceRank& rank = ranks_[comm.rank_index];
    TraceCallKey key{.kind = kind_of(call.op), .op = reduction_of(call.redop), .group = comm.group, .via = "nccl"};
    const TraceType type = type_of(call.dtype);
    key.dtype = type.name;
    const std::int64_t nranks = std::max(comm.nranks, call.nranks);
    const std::int64_t count = call.count > std::uint64_t{1} << 58 ? -1 : static_cast<std::int64_t>(call.count);
    const std::uint64_t part = bytes_of(count, type.size);
    const std::uint64_t whole =
        nranks > 0 && part != kUnknownBytes ? bytes_of(nranks, std::max<std::uint64_t>(part, 1)) : kUnknownBytes;
    set_sizes(key, part, part == 0 && nranks > 0 ? 0 : whole);
    if (key.kind != CommKind::all_reduce && key.kind != CommKind::reduce_scatter && key.kind != CommKind::reduce)
      key.op.clear();
    if (key.kind == CommKind::broadcast || key.kind == CommKind::reduce || key.kind == CommKind::gather ||
        key.kind == CommKind::scatter) {
      key.root = static_cast<int>(call.root);
    }
    if (key.kind == CommKind::send || key.kind == CommKind::recv) return take_message(comm, std::move(key), call);
    end_run(comm);
    if (key.kind == CommKind::unknown) ++rank.left_out[fmt::format("of an unknown kind ({})", printable(call.op))];
    rank.add_call(key);
  }

  /// `part`: of one rank or peer; `whole`: of all.
  static void set_sizes(TraceCallKey& key, std::uint64_t part, std::uint64_t whole) {
    const bool sends_all =
        key.kind == CommKind::reduce_scatter || key.kind == CommKind::scatter || key.kind == CommKind::alltoall;
    const bool gets_all =
        key.kind == CommKind::all_gather || key.kind == CommKind::gather || key.kind == CommKind::alltoall;
    key.in_bytes = sends_all ? whole : part;
    key.out_bytes = gets_all ? whole : part;
  }

  void take_message(LogComm& comm, TraceCallKey key, const CollCall& call) {
    const bool sends = key.kind == CommKind::send;
    const int peer = static_cast<int>(std::clamp<std::int64_t>(call.root, -1, 1 << 24));
    const bool again = std::ranges::any_of(comm.run, [&](const auto& m) { return m.sends == sends && m.peer == peer; });
    constexpr std::size_t kLongestRun = 1 << 16;
    if (again || comm.op_count != call.op_count || comm.run.size() >= kLongestRun) end_run(comm);
    comm.op_count = call.op_count;
    key.peer = peer;
    comm.run.push_back({sends, peer, std::move(key)});
  }

  /// A run of sends and receives is an alltoall if the rank exchanges data with itself too, as libraries do then, or
  /// with all others of more than two. A peer that is missing got nothing.
  void end_run(LogComm& comm) {
    TraceRank& rank = ranks_[comm.rank_index];
    std::vector<LogComm::Message> run = std::exchange(comm.run, {});
    std::set<int> to, from;
    std::uint64_t in = 0, out = 0;
    std::set<std::uint64_t> sizes;
    for (const LogComm::Message& message : run) {
      (message.sends ? to : from).insert(message.peer);
      (message.sends ? in : out) += message.key.has_size() ? message.key.in_bytes : 0;
      sizes.insert(message.key.in_bytes);
    }
    const auto all_others = static_cast<std::size_t>(std::max(comm.nranks - 1, 2));
    const bool with_itself = comm.rank >= 0 && to.contains(comm.rank) && from.contains(comm.rank) && comm.nranks > 1;
    if (run.empty() || (!with_itself && (to.size() < all_others || from.size() < all_others))) {
      for (const LogComm::Message& message : run) rank.add_call(message.key);
      return;
    }
    TraceCallKey key = run.front().key;
    const bool equal = sizes.size() == 1 && to.size() == from.size() && std::ssize(to) == comm.nranks;
    key.kind = equal ? CommKind::alltoall : CommKind::alltoallv;
    key.peer = -1;
    key.in_bytes = in;
    key.out_bytes = out;
    rank.add_call(key);
    rank.left_out["sends and receives (counted as alltoall)"] += run.size();
  }

  /// NCCL 2.7 to 2.21 writes bytes in the place of elements for AllGather and Broadcast.
  void mark_lost_types(TraceRank& rank) const {
    const auto loses = [](const TraceCallKey& key) {
      return key.kind == CommKind::all_gather || key.kind == CommKind::broadcast;
    };
    bool lost = std::ranges::any_of(rank.operations, [&](const TraceCallKey& key) {
      return !loses(key) && key.dtype != "int8" && !key.dtype.empty();
    });
    for (const TraceCallKey& key : rank.operations) lost = lost && (!loses(key) || key.dtype == "int8");
    const std::vector<std::string_view> parts = split_text(version_, '.');
    if (parts.size() > 1 && parts[0] == "2") {
      const int minor = number_of<int>(parts[1]).value_or(-1);
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
    TraceCallKey key{.kind = kind_of(call.op), .via = "nccl"};
    key.group = rank.group({call.comm, "", call.nranks, {}, true});
    const std::uint64_t part = call.nbytes;
    set_sizes(key, part, bytes_of(call.nranks, part));
    // Unlike those of the calls themselves, sizes of alltoall, gather and scatter are totals here.
    if (key.kind == CommKind::alltoall || key.kind == CommKind::gather || key.kind == CommKind::scatter)
      key.in_bytes = key.out_bytes = part;
    TraceCall& counted = rank.add_call(key);
    if (call.time_s >= 0 && call.time_s < 1e6) counted.time_ns = std::llround(1e9 * call.time_s);
  }

  const InputFile& file_;
  std::vector<TraceRank> ranks_;
  std::map<std::string, std::size_t> rank_places_;
  std::map<std::pair<std::string, std::uint64_t>, LogComm> comms_;        // by process and pointer
  std::map<std::pair<std::string, std::uint64_t>, std::size_t> handles_;  // by process and communicator
  std::string version_;
  bool captured_ = false, by_inspector_ = false;
};

}  // namespace

std::vector<TraceRank> read_call_log(const InputFile& file) { return CallLog(file).read(); }

}  // namespace busbar
