#include "common/base/text.h"
#include "driver/readers/call_records.h"
#include "driver/rules/line_rules.h"
#include "driver/workload/trace_readers.h"

namespace busbar {

RecognizedTrace recognize_trace(std::string_view head) {
  const std::string_view text = trimmed(head.substr(head.starts_with("\xef\xbb\xbf") ? 3 : 0));
  const bool is_json = text.starts_with('{') || text.starts_with('[');
  const auto has = [&](std::string_view words) { return mentions(head, words); };
  const LineRules& rules = builtin_line_rules();
  if (is_json && has("\"coll_perf\"")) return {TraceKind::log, "a log of NCCL's Inspector", ""};
  if (rules.has("profiles", text)) return {TraceKind::kineto, "a trace of PyTorch's profiler", ""};
  if (looks_like_torch_dump(head)) return {TraceKind::flight_dump, "a dump of PyTorch's Flight Recorder", ""};
  if (has("NCCL INFO") || has("NCCL WARN")) return {TraceKind::log, "a log of NCCL", ""};
  if (const std::string_view what = rules.shape_in("other-traces", head).key; !what.empty())
    return {TraceKind::refused, what, rules.facts_in("other-traces", head).at(std::string(what))};
  if (has("schema: 1") && has("operations:"))
    return {TraceKind::workload, "a file of `busbar workload import`", "`busbar workload show` reads it"};
  if (text.starts_with('{')) return {TraceKind::kineto, "JSON, perhaps of PyTorch's profiler", ""};
  if (is_json)
    return {TraceKind::refused, "JSON of another kind", "give the traces of PyTorch's profiler of the same run"};
  return {};
}

}  // namespace busbar
