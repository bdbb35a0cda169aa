#include "driver/workload/trace_kind.h"

#include "common/base/text.h"
#include "driver/readers/call_records.h"
#include "driver/rules/line_rules.h"

#include <array>

namespace busbar {
namespace {

/// Traces that are known and not read: what two parts of their beginning show. The first decides.
struct OtherTrace {
  std::string_view first, second;
  RecognizedTrace what;
};

constexpr std::string_view kProfile = "give the traces of PyTorch's profiler of the same run";

constexpr std::array<OtherTrace, 12> kOthers{{
    {"\"schema\"", "\"nodes\"", {TraceKind::refused, "an execution trace of PyTorch", kProfile}},
    {"schema", "chakra.", {TraceKind::refused, "a Chakra trace", kProfile}},
    {"\"workload_graph\"", "", {TraceKind::refused, "a Chakra trace as JSON, which has no sizes", kProfile}},
    {"\"comms\"", "\"req\"", {TraceKind::refused, "a basic communication trace of PARAM", kProfile}},
    {"\"COLL_API\"",
     "",
     {TraceKind::refused, "a trace of NCCL's example profiler", "give its Inspector's, or NCCL_DEBUG=INFO logs"}},
    {"CommInitDev",
     "uniqueID",
     {TraceKind::refused, "a replay log of RCCL", "give NCCL_DEBUG=INFO logs with INIT,COLL"}},
    {"NCCL CALL nccl",
     "",
     {TraceKind::refused, "a log of NCCL's CALL lines", "set NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,COLL"}},
    {"@ mpiP", "", {TraceKind::refused, "a report of mpiP, which has no exact sizes", ""}},
    {"SQLite format 3", "", {TraceKind::refused, "a database, perhaps of Nsight Systems", kProfile}},
    {"OTF2", "", {TraceKind::refused, "an OTF2 trace", ""}},
    {"\"document\"", "\"schema\"", {TraceKind::refused, "a result of busbar", "`busbar report` reads it"}},
    {"MPI_Init", ":", {TraceKind::refused, "a trace of liballprof", ""}},
}};

/// Chakra's protobuf: a length, then GlobalMetadata, whose first field is a version (0a, its length, digits and dots).
bool is_chakra(std::string_view head) {
  if (head.size() < 8 || head[0] <= 2 || head[0] >= 127 || head[1] != '\n') return false;
  const auto length = static_cast<std::size_t>(head[2]);
  const std::string_view version = head.substr(3, length);
  return length > 0 && length < 32 && version.find_first_not_of("0123456789.") == kNotFound;
}

}  // namespace

RecognizedTrace recognize_trace(std::string_view head) {
  const std::string_view text = trimmed(head.substr(head.starts_with("\xef\xbb\xbf") ? 3 : 0));
  const bool is_json = text.starts_with('{') || text.starts_with('[');
  const auto has = [&](std::string_view words) { return mentions(head, words); };
  if (is_json && has("\"coll_perf\"")) return {TraceKind::log, "a log of NCCL's Inspector", ""};
  if (builtin_line_rules().has("profiles", text)) return {TraceKind::kineto, "a trace of PyTorch's profiler", ""};
  if (looks_like_torch_dump(head)) return {TraceKind::flight_dump, "a dump of PyTorch's Flight Recorder", ""};
  if (has("NCCL INFO") || has("NCCL WARN")) return {TraceKind::log, "a log of NCCL", ""};
  for (const OtherTrace& other : kOthers) {
    if (has(other.first) && (other.second.empty() || has(other.second))) return other.what;
  }
  if (is_chakra(head)) return {TraceKind::refused, "a Chakra trace", kProfile};
  if (has("schema: 1") && has("operations:"))
    return {TraceKind::workload, "a file of `busbar workload import`", "`busbar workload show` reads it"};
  if (text.starts_with('{')) return {TraceKind::kineto, "JSON, perhaps of PyTorch's profiler", ""};
  if (is_json) return {TraceKind::refused, "JSON of another kind", kProfile};
  return {};
}

}  // namespace busbar
