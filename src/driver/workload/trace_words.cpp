#include "collectives/op.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "driver/readers/call_records.h"
#include "driver/rules/line_rules.h"
#include "driver/workload/trace_rank.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace busbar {

CommKind kind_of(std::string_view word) {
  return from_word<CommKind>(builtin_line_rules().shape_in("collectives", word).key).value_or(CommKind::unknown);
}

Extents parts_of(CommKind kind) {
  const Collective* const collective = collective_of(kind);
  const bool unequal = collective == nullptr || uses_traffic(*collective);
  return unequal ? Extents{1, 1} : collective->extents({.count = 1, .elem_size = 1, .nranks = 2});
}

std::string_view annotated_call(std::string_view annotation) {
  const std::size_t colon = annotation.find(':');
  const bool is_one = contains(std::array{"nccl", "gloo", "hccl"}, annotation.substr(0, colon));
  return is_one && colon != kNotFound ? annotation.substr(colon + 1) : std::string_view();
}

TraceType type_of(std::string_view word) {
  for (const auto& [name, size] : builtin_line_rules().facts_in("element-types", trimmed(word)))
    return {name, number_of<std::uint64_t>(size).value_or(0)};
  return {};
}

std::string reduction_of(std::string_view word) {
  const auto number = number_of<std::uint64_t>(word);
  if (!number) return {};
  return *number <= static_cast<std::uint64_t>(Op::avg) ? std::string(kOpNames[*number]) : "premulsum";
}

std::optional<std::uint64_t> bytes_of(std::int64_t count, std::uint64_t size) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;
  if (count < 0 || size == 0 || static_cast<std::uint64_t>(count) > kMostBytes / size) return std::nullopt;
  return static_cast<std::uint64_t>(count) * size;
}

RecognizedTrace recognize_trace(std::string_view head) {
  const std::string_view text = trimmed(head.substr(head.starts_with("\xef\xbb\xbf") ? 3 : 0));
  const LineRules& rules = builtin_line_rules();
  if (rules.has("inspector-logs", text)) return {TraceKind::log, {}};
  if (rules.has("profiles", text)) return {TraceKind::kineto, {}};
  if (looks_like_torch_dump(head)) return {TraceKind::flight_dump, {}};
  if (mentions(head, "NCCL INFO") || mentions(head, "NCCL WARN")) return {TraceKind::log, {}};
  const std::string_view what = rules.shape_in("other-traces", head).key;
  if (what.empty() && text.starts_with('{')) return {TraceKind::kineto, {}};
  if (text.empty()) return {TraceKind::refused, "it is empty"};
  if (what.empty())
    return {TraceKind::refused,
            "it is none of these: a trace of PyTorch's profiler, a dump of its Flight Recorder, a log of NCCL's COLL "
            "lines or of its Inspector"};
  const std::string instead = rules.facts_in("other-traces", head).at(std::string(what));
  return {TraceKind::refused,
          fmt::format("it is {}, which workload import does not read{}{}", what, instead.empty() ? "" : "; ", instead)};
}

}  // namespace busbar
