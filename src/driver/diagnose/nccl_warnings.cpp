#include "driver/diagnose/nccl_warnings.h"

#include "common/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace busbar {

const LineRule& classify_warning(std::string_view file, std::string_view text) {
  const std::string line = fmt::format("{} {}", file.substr(0, 200), text.substr(0, 2000));
  for (const LineRule* rule : builtin_line_rules().matches(line)) {
    if (rule->kind < RuleKind::traceback) return *rule;  // those of programs follow
  }
  static const LineRule other{};
  return other;
}

std::string warning_shape(std::string_view text) {
  return std::string(trimmed(builtin_line_rules().without("changing-words", text.substr(0, 300), "N")));
}

void WarningBook::add(const LineRule& rule, const Warning& warning, std::string_view timestamp,
                      const WarningWriter& writer, std::size_t file, std::uint64_t line) {
  std::string shape = warning_shape(warning.text);
  // "error 5" and "error 12" have one shape, and are not one thing.
  const auto same = [&](const WarningRecord& one) { return one.rule == &rule && one.shape == shape; };
  auto record = std::ranges::find_if(records_, same);
  if (record == records_.end()) {
    if (records_.size() == kRecords) {
      ++not_kept_;
      return;
    }
    record = records_.emplace(record);
    record->rule = &rule;
    record->shape = std::move(shape);
    record->file = file;
    record->line = line;
    record->where = warning.file.substr(0, 200);
    if (!warning.function.empty()) record->where += " (" + std::string(warning.function.substr(0, 100)) + ")";
  }
  timestamp = timestamp.substr(0, 64);
  if (record->times++ == 0 || (!timestamp.empty() && timestamp < record->timestamp)) {
    record->timestamp = timestamp;
    record->example = warning.text.substr(0, 500);
    record->source = writer.source;
  }
  constexpr std::size_t kMost = 4096;
  if (record->ranks.size() < kMost) record->ranks.insert(writer.ranks.begin(), writer.ranks.end());
  if (record->hosts.size() < kMost && !writer.host.empty()) record->hosts.emplace(writer.host);
  if (record->devices.size() < kMost && !writer.device.empty()) record->devices.emplace(writer.device);
  if (writer.source == WarningWriter::kNobody) return;
  const auto place = std::ranges::lower_bound(record->sources, writer.source);
  const bool known = place != record->sources.end() && *place == writer.source;
  if (!known && record->sources.size() < kSources) record->sources.insert(place, writer.source);
}

std::vector<const WarningRecord*> causes_first(const WarningBook& book) {
  std::vector<const WarningRecord*> order;
  for (const WarningRecord& record : book.records()) order.push_back(&record);
  std::ranges::stable_sort(order, [](const WarningRecord* a, const WarningRecord* b) {
    return std::tuple(a->rule->kind, a->timestamp.empty(), std::string_view(a->timestamp)) <
           std::tuple(b->rule->kind, b->timestamp.empty(), std::string_view(b->timestamp));
  });
  return order;
}

}  // namespace busbar
