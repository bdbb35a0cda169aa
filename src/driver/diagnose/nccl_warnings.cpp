#include "driver/diagnose/nccl_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
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
  std::string shape;
  const auto word_char = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t i = 0; i < text.size() && shape.size() < 200;) {
    if (!word_char(text[i])) {
      shape += text[i++];
      continue;
    }
    std::size_t end = i;
    bool digit = false;
    for (; end < text.size() && word_char(text[end]); ++end) {
      digit = digit || std::isdigit(static_cast<unsigned char>(text[end])) != 0;
    }
    const std::string_view word = text.substr(i, end - i);
    if (digit || (!shape.empty() && shape.ends_with("nccl-"))) {
      if (!shape.ends_with("N.")) shape += 'N';
    } else {
      shape += word;
    }
    i = end;
  }
  while (!shape.empty() && shape.back() == ' ') shape.pop_back();
  return shape;
}

namespace {

void note_actor(WarningRecord& record, std::uint32_t actor) {
  const auto place = std::lower_bound(record.actors.begin(), record.actors.end(), actor);
  if (place != record.actors.end() && *place == actor) return;
  if (record.actors.size() < WarningBook::kActors) {
    record.actors.insert(place, actor);
  } else {
    ++record.actors_more;
  }
}

}  // namespace

void WarningBook::add(const LineRule& rule, const Warning& warning, std::string_view timestamp,
                      const WarningVoice& voice, std::size_t file, std::uint64_t line) {
  std::string where(warning.file.substr(0, 200));
  if (!warning.function.empty()) where += " (" + std::string(warning.function.substr(0, 100)) + ")";
  WarningRecord added{.rule = &rule,
                      .shape = warning_shape(warning.text),
                      .example = std::string(warning.text.substr(0, 500)),
                      .where = std::move(where),
                      .timestamp = std::string(timestamp.substr(0, 64)),
                      .actor = voice.actor,
                      .ranks = {},
                      .hosts = {},
                      .devices = {},
                      .actors = {},
                      .times = 1,
                      .file = file,
                      .line = line};
  if (voice.actor != WarningVoice::kNobody) added.actors.push_back(voice.actor);
  added.ranks.insert(voice.ranks.begin(), voice.ranks.end());
  if (!voice.host.empty()) added.hosts.emplace(voice.host);
  if (!voice.device.empty()) added.devices.emplace(voice.device);
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
    record->actor = added.actor;
  }
  record->times += added.times;
  record->actors_more += added.actors_more;
  constexpr std::size_t kMost = 4096;
  if (record->ranks.size() < kMost) record->ranks.merge(added.ranks);
  if (record->hosts.size() < kMost) record->hosts.merge(added.hosts);
  if (record->devices.size() < kMost) record->devices.merge(added.devices);
  for (const std::uint32_t actor : added.actors) note_actor(*record, actor);
  return &*record;
}

void WarningBook::merge(WarningBook&& other, const std::vector<std::uint32_t>& actors) {
  not_kept_ += other.not_kept_;
  for (WarningRecord& later : other.records_) {
    for (std::uint32_t& actor : later.actors) actor = actors[actor];
    std::ranges::sort(later.actors);
    const std::uint32_t first = later.actor != WarningVoice::kNobody ? actors[later.actor] : later.actor;
    later.actor = first;
    WarningRecord* const record = take(std::move(later));
    if (record != nullptr && record->actor == WarningVoice::kNobody) record->actor = first;
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
