#include "driver/readers/call_records.h"

#include "common/base/error.h"
#include "common/base/text.h"
#include "common/record/json_values.h"
#include "driver/rules/line_rules.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

namespace busbar {
namespace {

constexpr std::size_t kMostOfGroup = 1 << 20;
constexpr std::size_t kLongestName = 200;
constexpr std::size_t kMostOpen = 64;

const Json& member_of(const Json& json, const char* key) {
  static const Json nothing;
  const auto found = json.is_object() ? json.find(key) : json.end();
  return json.is_object() && found != json.end() ? *found : nothing;
}

/// Numbers are strings in some parts of these documents.
std::optional<std::int64_t> whole(const Json& json) {
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (!json.is_string()) return std::nullopt;
  return number_of<std::int64_t>(json.get_ref<const std::string&>());
}

int rank_in(const Json& json) {
  const auto value = whole(json);
  return value && *value >= 0 && *value < static_cast<std::int64_t>(kMostOfGroup) ? static_cast<int>(*value) : -1;
}

std::string text_in(const Json& json) {
  return json.is_string() ? printable(json.get_ref<const std::string&>().substr(0, kLongestName)) : std::string();
}

/// "[0, 1, 2]", a string, or a list.
std::vector<int> group_ranks(const Json& json) {
  std::vector<int> ranks;
  if (json.is_array()) {
    for (const Json& one : json) {
      if (rank_in(one) >= 0 && ranks.size() < kMostOfGroup) ranks.push_back(rank_in(one));
    }
  } else if (json.is_string()) {
    bool cut = false;
    ranks = ranks_in(json.get_ref<const std::string&>(), cut);
  }
  std::ranges::sort(ranks);
  return ranks;
}

/// Elements of all tensors of a list of shapes, 2^60 at most.
std::uint64_t elements(const Json& shapes) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 60;
  std::uint64_t all = 0;
  if (!shapes.is_array()) return 0;
  for (const Json& shape : shapes) {
    std::uint64_t product = 1;
    if (!shape.is_array()) continue;
    for (const Json& extent : shape) {
      const auto n = static_cast<std::uint64_t>(std::max<std::int64_t>(0, whole(extent).value_or(0)));
      product = n > 0 && product > kMost / n ? kMost : product * n;
    }
    all = std::min(kMost, all + product);
  }
  return all;
}

/// The count that is equal on all ranks, because their parts may differ.
std::uint64_t common_count(const TorchDump::Entry& entry) {
  if (mentions(entry.op, "all_to_all") || mentions(entry.op, "alltoall")) return 0;
  const bool output = mentions(entry.op, "all_gather") || mentions(entry.op, "allgather") || entry.op == "scatter";
  return output ? entry.out_elements : entry.in_elements;
}

/// The innermost frame that is not PyTorch's own.
std::string site_of(const Json& frames) {
  if (!frames.is_array()) return {};
  for (const Json& frame : frames) {
    const Json& named = member_of(frame, "filename");
    const std::string file = named.is_string() ? named.get<std::string>() : std::string();
    if (file.empty() || mentions(file, "/torch/")) continue;
    return fmt::format("{}, {}:{}", text_in(member_of(frame, "name")), printable(file.substr(file.rfind('/') + 1)),
                       whole(member_of(frame, "line")).value_or(0));
  }
  return {};
}

/// Gloo's calls are "scheduled" for ever: only `retired` shows.
bool is_ended(const Json& entry) {
  const Json& retired = member_of(entry, "retired");
  return text_in(member_of(entry, "state")) == "completed" || (retired.is_boolean() && retired.get<bool>());
}

/// Of "send 0->1" or "recv 1<-0"; nullopt: it does not name both ends.
std::optional<TorchDump::Transfer> transfer_of(const std::string& op, bool sends) {
  const LineShape ends = builtin_line_rules().shape_in("torch-transfers", op);
  const TorchDump::Transfer transfer{ends.number("here"), ends.number("there"), sends};
  return transfer.here < 0 || transfer.there < 0 ? std::nullopt : std::optional(transfer);
}

class DumpReader {
 public:
  explicit DumpReader(const Json& json) : json_(json) {}

  TorchDump read() {
    dump_.rank = rank_in(member_of(json_, "rank"));
    for (const char* key : {"comm_lib_version", "nccl_version"}) {
      if (dump_.nccl_version.empty()) dump_.nccl_version = text_in(member_of(json_, key));
    }
    read_groups();
    const Json& entries = member_of(json_, "entries");
    if (entries.is_array()) {
      for (const Json& entry : entries) read_entry(entry);
      const auto last = entries.empty() ? std::nullopt : whole(member_of(entries.back(), "record_id"));
      if (last && *last >= std::ssize(entries)) dump_.lost = *last + 1 - entries.size();
    }
    read_status();
    return std::move(dump_);
  }

 private:
  TorchDump::Group& group(const std::string& name) {
    const auto [known, added] = places_.emplace(name, dump_.groups.size());
    if (added) dump_.groups.emplace_back().name = name;
    return dump_.groups[known->second];
  }

  void read_groups() {
    const Json& config = member_of(json_, "pg_config");
    if (!config.is_object()) return;
    for (const auto& [key, value] : config.items()) {
      // Gloo's default group has no name here, while its calls name it ["0", "default_pg"] (PyTorch 2.11).
      TorchDump::Group& known = group(key.empty() ? "0" : printable(key.substr(0, kLongestName)));
      known.description = key.empty() ? "default_pg" : text_in(member_of(value, "desc"));
      known.ranks = group_ranks(member_of(value, "ranks"));
    }
  }

  void read_entry(const Json& entry) {
    // ["0", "default_pg"]; a name alone in the oldest format.
    const Json& named = member_of(entry, "process_group");
    const std::string name = text_in(named.is_array() && !named.empty() ? named.front() : named);
    TorchDump::Group& its = group(name);
    if (its.description.empty() && named.is_array() && named.size() > 1) its.description = text_in(named[1]);
    const TorchDump::Entry& record = add_record(entry, places_[name]);
    const std::string& op = record.op;
    const Json& p2p = member_of(entry, "is_p2p");
    if ((p2p.is_boolean() && p2p.get<bool>()) || op.starts_with("send") || op.starts_with("recv")) {
      const bool receives = op.starts_with("recv");
      ++(receives ? its.receives : its.sends);
      const auto transfer = transfer_of(op, !receives);
      if (transfer && !is_ended(entry) && its.open.size() < kMostOpen) its.open.push_back(*transfer);
      return;
    }
    if (record.seq < 0 || record.seq > UINT32_MAX) return;
    its.site = site_of(member_of(entry, "frames"));
    ++ncalls_;
    const TorchDump::Call call{record.seq, op, common_count(record), record.in_dtype, is_ended(entry), ncalls_};
    // The operations of a coalesced group, and the group, have one number.
    if (its.calls.empty() || its.calls.back().seq != call.seq) {
      its.calls.push_back(call);
    } else {
      its.calls.back().ended = its.calls.back().ended && call.ended;
      if (op != "coalesced") its.calls.back().count += call.count;
    }
  }

  const TorchDump::Entry& add_record(const Json& entry, std::size_t group) {
    const auto first_text = [&](const char* key) {
      const Json& list = member_of(entry, key);
      return list.is_array() && !list.empty() ? text_in(list.front()) : std::string();
    };
    TorchDump::Entry& record = dump_.entries.emplace_back();
    record.group = group;
    record.op = text_in(member_of(entry, "profiling_name"));
    record.op.erase(0, record.op.find(':') + 1);  // nothing if there is none
    if (const auto transfer = transfer_of(record.op, true)) record.peer = transfer->there;
    record.in_elements = elements(member_of(entry, "input_sizes"));
    record.out_elements = elements(member_of(entry, "output_sizes"));
    record.in_dtype = first_text("input_dtypes");
    record.out_dtype = first_text("output_dtypes");
    record.ended = text_in(member_of(entry, "state")) == "completed";
    const Json& seq = member_of(entry, "collective_seq_id");
    record.seq = whole(seq.is_null() ? member_of(entry, "seq_id") : seq).value_or(-1);
    const Json& time_ms = member_of(entry, "duration_ms");
    if (time_ms.is_number() && time_ms.get<double>() > 0) record.time_s = 1e-3 * time_ms.get<double>();
    return record;
  }

  /// Without entries, what the status says of the first group; it cannot identify others, because its ids are the
  /// process's own.
  void read_status() {
    const Json& status = member_of(member_of(json_, "pg_status"), "0");
    const auto enqueued = whole(member_of(status, "last_enqueued_collective"));
    if (ncalls_ > 0 || !enqueued || *enqueued < 0 || *enqueued > UINT32_MAX) return;
    for (TorchDump::Group& its : dump_.groups) {
      if (its.description != "default_pg") continue;
      const auto completed = whole(member_of(status, "last_completed_collective"));
      its.calls.push_back({*enqueued, "collective", 0, "", completed.value_or(-1) >= *enqueued, 1});
      return;
    }
  }

  const Json& json_;
  TorchDump dump_;
  std::map<std::string, std::size_t> places_;
  std::uint32_t ncalls_ = 0;
};

bool is_dump(const Json& json) {
  return !member_of(json, "pg_config").is_null() || !member_of(json, "entries").is_null();
}

}  // namespace

std::vector<int> ranks_in(std::string_view text, bool& cut) {
  std::vector<int> ranks;
  cut = cut || mentions(text, "...");
  for (const char* at = text.data(); at < text.data() + text.size();) {
    int rank = 0;
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), rank);
    if (error == std::errc{} && rank >= 0) ranks.push_back(rank);
    at = error == std::errc{} ? end : at + 1;
  }
  return ranks;
}

bool looks_like_torch_dump(std::string_view head) { return builtin_line_rules().has("torch-dumps", head); }

std::vector<TorchDump> read_torch_dumps(std::string_view text, const std::string& name) {
  const Json json = parse_json(text.starts_with('\x80') ? json_of_pickle(text, name) : text, name);
  std::vector<TorchDump> dumps;
  if (is_dump(json)) {
    dumps.push_back(DumpReader(json).read());
  } else if (json.is_array() || json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      if (!is_dump(value)) continue;
      dumps.push_back(DumpReader(value).read());
      // "3" or "rank_3"
      const std::size_t digits = key.find_first_of("0123456789");
      if (json.is_object() && dumps.back().rank < 0 && digits != std::string::npos)
        dumps.back().rank = rank_in(Json(key.substr(digits)));
    }
  }
  return dumps;
}

std::optional<InspectorCall> read_inspector_line(std::string_view line) {
  constexpr std::size_t kLongest = 1 << 16;
  if (line.size() > kLongest || !trimmed(line).starts_with('{') || !mentions(line, "\"coll_sn\"")) return std::nullopt;
  try {
    const Json json = parse_json(line, "a line of NCCL's Inspector");
    const Json& header = member_of(json, "header");
    const Json& metadata = member_of(json, "metadata");
    const Json& perf = member_of(json, "coll_perf");
    InspectorCall call;
    call.comm = text_in(member_of(header, "id"));
    call.rank = rank_in(member_of(header, "rank"));
    call.nranks = rank_in(member_of(header, "n_ranks"));
    call.host = text_in(member_of(metadata, "hostname"));
    call.pid = std::max<std::int64_t>(-1, whole(member_of(metadata, "pid")).value_or(-1));
    call.op = text_in(member_of(perf, "coll"));
    call.seq = whole(member_of(perf, "coll_sn")).value_or(-1);
    call.nbytes = static_cast<std::uint64_t>(
        std::max<std::int64_t>(0, whole(member_of(perf, "coll_msg_size_bytes")).value_or(0)));
    const Json& time_us = member_of(perf, "coll_exec_time_us");
    if (time_us.is_number() && time_us.get<double>() > 0) call.time_s = 1e-6 * time_us.get<double>();
    const bool good =
        !call.comm.empty() && !call.op.empty() && call.rank >= 0 && call.seq >= 0 && call.seq < UINT32_MAX;
    return good ? std::optional(std::move(call)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace busbar
