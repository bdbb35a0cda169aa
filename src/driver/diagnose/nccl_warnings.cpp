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

namespace {

void note_source(WarningRecord& record, std::uint32_t source) {
  const auto place = std::lower_bound(record.sources.begin(), record.sources.end(), source);
  if (place != record.sources.end() && *place == source) return;
  if (record.sources.size() < WarningBook::kSources) {
    record.sources.insert(place, source);
  } else {
    ++record.sources_more;
  }
}

}  // namespace

void WarningBook::add(const LineRule& rule, const Warning& warning, std::string_view timestamp,
                      const WarningWriter& writer, std::size_t file, std::uint64_t line) {
  std::string where(warning.file.substr(0, 200));
  if (!warning.function.empty()) where += " (" + std::string(warning.function.substr(0, 100)) + ")";
  WarningRecord added{.rule = &rule,
                      .shape = warning_shape(warning.text),
                      .example = std::string(warning.text.substr(0, 500)),
                      .where = std::move(where),
                      .timestamp = std::string(timestamp.substr(0, 64)),
                      .source = writer.source,
                      .ranks = {},
                      .hosts = {},
                      .devices = {},
                      .sources = {},
                      .times = 1,
                      .file = file,
                      .line = line};
  if (writer.source != WarningWriter::kNobody) added.sources.push_back(writer.source);
  added.ranks.insert(writer.ranks.begin(), writer.ranks.end());
  if (!writer.host.empty()) added.hosts.emplace(writer.host);
  if (!writer.device.empty()) added.devices.emplace(writer.device);
  take(std::move(added));
}

WarningRecord* WarningBook::take(WarningRecord&& added) {
  // "error 5" and "error 12" have one shape, and are not one thing.
  const auto same = [&](const WarningRecord& one) { return one.rule == added.rule && one.shape == added.shape; };
  const auto record = std::ranges::find_if(records_, same);
  if (record == records_.end()) {
    if (records_.size() == kRecords) {
      not_kept_ += added.times;
      return nullptr;
    }
    return &records_.emplace_back(std::move(added));
  }
  if (!added.timestamp.empty() && added.timestamp < record->timestamp) {
    record->timestamp = added.timestamp;
    record->example = added.example;
    record->source = added.source;
  }
  record->times += added.times;
  record->sources_more += added.sources_more;
  constexpr std::size_t kMost = 4096;
  if (record->ranks.size() < kMost) record->ranks.merge(added.ranks);
  if (record->hosts.size() < kMost) record->hosts.merge(added.hosts);
  if (record->devices.size() < kMost) record->devices.merge(added.devices);
  for (const std::uint32_t source : added.sources) note_source(*record, source);
  return &*record;
}

void WarningBook::merge(WarningBook&& other, const std::vector<std::uint32_t>& sources) {
  not_kept_ += other.not_kept_;
  for (WarningRecord& later : other.records_) {
    for (std::uint32_t& source : later.sources) source = sources[source];
    std::ranges::sort(later.sources);
    const std::uint32_t first = later.source != WarningWriter::kNobody ? sources[later.source] : later.source;
    later.source = first;
    WarningRecord* const record = take(std::move(later));
    if (record != nullptr && record->source == WarningWriter::kNobody) record->source = first;
  }
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
