#include "driver/diagnose/warning_book.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace busbar {

static void note_actor(WarningRecord& record, std::uint32_t actor) {
  const auto place = std::lower_bound(record.actors.begin(), record.actors.end(), actor);
  if (place != record.actors.end() && *place == actor) return;
  if (record.actors.size() < WarningBook::kActors) {
    record.actors.insert(place, actor);
  } else {
    ++record.actors_more;
  }
}

const WarningRule& WarningBook::add(const Warning& warning, std::string_view timestamp, std::uint32_t actor,
                                    std::size_t file, std::uint64_t line) {
  const WarningRule& rule = classify_warning(warning.file, warning.text);
  std::string shape = warning_shape(warning.text);
  auto record = std::find_if(records_.begin(), records_.end(), [&](const auto& one) { return one.shape == shape; });
  if (record == records_.end()) {
    if (records_.size() == kRecords) {
      ++not_kept_;
      return rule;
    }
    std::string where(warning.file.substr(0, 200));
    if (!warning.function.empty()) where += " (" + std::string(warning.function.substr(0, 100)) + ")";
    records_.push_back({.rule = &rule,
                        .shape = std::move(shape),
                        .example = std::string(warning.text.substr(0, 500)),
                        .where = std::move(where),
                        .timestamp = std::string(timestamp.substr(0, 64)),
                        .actor = actor,
                        .actors = {},
                        .file = file,
                        .line = line});
    record = records_.end() - 1;
  }
  ++record->times;
  note_actor(*record, actor);
  if (!timestamp.empty() && timestamp < record->timestamp) {
    record->timestamp = timestamp.substr(0, 64);
    record->example = warning.text.substr(0, 500);
    record->actor = actor;
  }
  return rule;
}

void WarningBook::merge(WarningBook&& other, const std::vector<std::uint32_t>& actors) {
  not_kept_ += other.not_kept_;
  for (WarningRecord& later : other.records_) {
    for (std::uint32_t& actor : later.actors) actor = actors[actor];
    later.actor = actors[later.actor];
    std::sort(later.actors.begin(), later.actors.end());
    auto record =
        std::find_if(records_.begin(), records_.end(), [&](const auto& one) { return one.shape == later.shape; });
    if (record == records_.end()) {
      if (records_.size() == kRecords) {
        not_kept_ += later.times;
      } else {
        records_.push_back(std::move(later));
      }
      continue;
    }
    if (!later.timestamp.empty() && later.timestamp < record->timestamp) {
      record->timestamp = later.timestamp;
      record->example = later.example;
      record->actor = later.actor;
    }
    record->times += later.times;
    record->actors_more += later.actors_more;
    for (const std::uint32_t actor : later.actors) note_actor(*record, actor);
  }
}

std::vector<const WarningRecord*> causes_first(const WarningBook& book) {
  std::vector<const WarningRecord*> order;
  for (const WarningRecord& record : book.records()) order.push_back(&record);
  std::stable_sort(order.begin(), order.end(), [](const WarningRecord* a, const WarningRecord* b) {
    return std::tuple(a->rule->kind, a->timestamp.empty(), std::string_view(a->timestamp)) <
           std::tuple(b->rule->kind, b->timestamp.empty(), std::string_view(b->timestamp));
  });
  return order;
}

}  // namespace busbar
