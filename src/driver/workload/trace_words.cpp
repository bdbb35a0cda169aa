#include "collectives/op.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "driver/readers/call_records.h"
#include "driver/rules/line_rules.h"
#include "driver/workload/trace_rank.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

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

std::vector<TraceRank> read_trace(const InputFile& file) {
  const std::string name = file.path.string();
  std::string trouble = file.trouble;
  std::string head(blocks_of(file, trouble)().substr(0, kHead));
  if (head.starts_with(kUtf8Mark)) head.erase(0, kUtf8Mark.size());
  const LineRules& rules = builtin_line_rules();
  const std::string what(rules.shape_in("traces", head).key);
  std::vector<TraceRank> ranks;
  if (what == "kineto") {
    ranks.push_back(read_kineto(blocks_of(file, trouble), name));
  } else if (what == "log" || what == "dump") {  // they are read as a whole
    InputFile plain = unpacked(std::vector{file.opens}).front();
    plain.path = file.path;
    if (!plain.trouble.empty()) trouble = plain.trouble;
    ranks = what == "log" ? read_call_log(plain_text(plain, true)) : read_flight_dump(plain);
  } else {
    throw_bad_config(fmt::format("{}: {}", name, trouble.empty() ? rules.facts_in("traces", head)[what] : trouble));
  }
  if (ranks.empty())
    throw_bad_config(name + ": the log has no lines of calls; set NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,COLL");
  for (TraceRank& rank : ranks) {
    rank.source.file = name;
    add_once(rank.remarks, trouble);
  }
  return ranks;
}

}  // namespace busbar
