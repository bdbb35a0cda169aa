#include "common/evidence/hang_json.h"

#include "common/base/lists.h"
#include "common/base/random_source.h"
#include "common/base/say.h"
#include "common/base/units.h"
#include "common/evidence/evidence_fields.h"
#include "common/record/json_fields.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <system_error>
#include <type_traits>

namespace busbar {
namespace {

void empty_as_null(Json& text) {
  if (text == "") text = nullptr;
}

Json observed_json(const HangEvidence& evidence) {
  Json observed = Json::object();
  visit_observed(members_of(observed), evidence);
  for (Json& host : observed["hosts"]) {
    empty_as_null(host["why_not"]);
    Json& net_bytes_per_s = host["net_bytes_per_s"];
    if (net_bytes_per_s < 0) net_bytes_per_s = nullptr;
    for (Json& rank : host["ranks"]) empty_as_null(rank["error"]);
  }
  for (Json& ras : observed["ras"]) empty_as_null(ras["why_not"]);
  return observed;
}

template <class T>
void read_value(const JsonPlace& json, T& value, std::string_view key);

/// Reads a record from the object at a place. null is an empty string; for a number, its default.
auto reader_of(const JsonPlace& object) {
  return [&object](const char* key, auto& field) { read_value(object.at(key), field, key); };
}

template <class T>
void read_value(const JsonPlace& json, T& value, std::string_view key) {
  if constexpr (std::is_same_v<T, std::string>) {
    value = json.text_or_empty();
  } else if constexpr (std::is_same_v<T, bool>) {
    value = json.truth();
  } else if constexpr (std::is_same_v<T, double>) {
    value = json.number_or(value);
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    value = json.unsigned_whole();
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    value = json.whole(std::numeric_limits<std::int64_t>::min());
  } else if constexpr (std::is_same_v<T, int>) {
    constexpr int kMostRanks = 1 << 24;
    const bool counts_ranks = key != "communicator" && key != "mtu";
    value = static_cast<int>(
        json.whole(key == "root" ? -1 : 0, counts_ranks ? kMostRanks : std::numeric_limits<int>::max()));
  } else if constexpr (std::is_same_v<T, char>) {
    const std::string text = json.text_or_empty();
    if (text.size() != 1) json.fail("is not a single letter");
    value = text.front();
  } else if constexpr (std::is_enum_v<T>) {
    const std::optional<T> known = from_word<T>(words_of(value), json.text_or_empty());
    if (!known) json.fail(fmt::format("is none of {}", fmt::join(words_of(value), ", ")));
    value = *known;
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    value = json.texts();
  } else if constexpr (MaybeHeld<T>) {
    if (!json.is_null()) read_value(json, value.emplace(), key);
  } else if constexpr (ManyItems<T>) {
    json.each([&](const JsonPlace& item) { read_value(item, value.emplace_back(), key); });
  } else {
    visit_fields(reader_of(json), value);
  }
}

}  // namespace

Json hang_value(const HangEvidence& evidence, const HangFinding& finding) {
  Envelope envelope{"hang", local_timestamp(), {}, {}};
  for (const HostEvidence& host : evidence.hosts) {
    add_once(envelope.where, host.host);
    if (envelope.command.empty() && !host.ranks.empty()) add_once(envelope.command, host.ranks.front().flight.command);
  }
  Json document = envelope_json(envelope);
  document.update(fields_json<Finding>(finding));
  visit_occasion(members_of(document), evidence);
  document["groups"] = fields_json(finding.groups);
  document["observed"] = observed_json(evidence);
  return document;
}

std::string hang_json(const HangEvidence& evidence, const HangFinding& finding) {
  return dump_json(hang_value(evidence, finding)) + "\n";
}

HangEvidence read_hang_json(std::string_view text, const std::string& name) {
  const Json json = read_document(text, name, "hang");
  const JsonPlace document(json, "", name, "this suite's watchdog");
  HangEvidence evidence;
  visit_occasion(reader_of(document), evidence);
  const JsonPlace observed = document.at("observed");
  visit_observed(reader_of(observed), evidence);
  return evidence;
}

std::string write_private_file(const std::string& text, const std::filesystem::path& folder, const std::string& name) {
  std::error_code failed;
  const std::filesystem::path real = std::filesystem::canonical(folder, failed);
  if (failed) return {};
  // So that nobody can take the name first.
  const std::filesystem::path fresh = real / fmt::format(".{}.{}", name, random_id()), path = real / name;
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return {};
  const bool written = write_all(fd, text);
  if (::close(fd) == 0 && written && std::rename(fresh.c_str(), path.c_str()) == 0) return path.string();
  ::unlink(fresh.c_str());
  return {};
}

}  // namespace busbar
