#include "common/watch/hang_json.h"

#include "common/base/lists.h"
#include "common/base/timestamp.h"
#include "common/record/envelope.h"
#include "common/record/json_fields.h"
#include "common/record/json_values.h"
#include "common/watch/evidence_fields.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace busbar {
namespace {

void empty_as_null(Json& text) {
  if (text == "") text = nullptr;
}

Json observed_json(const HangEvidence& evidence) {
  Json observed = Json::object();
  visit_observed([&](const char* key, const auto& field) { observed[key] = fields_json(field); }, evidence);
  for (Json& host : observed["hosts"]) {
    empty_as_null(host["why_not"]);
    Json& net_bytes_per_s = host["net_bytes_per_s"];
    if (net_bytes_per_s < 0) net_bytes_per_s = nullptr;
    for (Json& rank : host["ranks"]) empty_as_null(rank["error"]);
  }
  for (Json& ras : observed["ras"]) empty_as_null(ras["why_not"]);
  return observed;
}

/// The numbers that a field can have.
struct WholeRange {
  int least;
  int most;
};
WholeRange range_of(std::string_view key) {
  constexpr int kMostRanks = 1 << 24;
  if (key == "root") return {-1, kMostRanks};
  if (key == "communicator" || key == "mtu") return {0, std::numeric_limits<int>::max()};
  return {0, kMostRanks};  // ranks, and how many
}

/// Reads a record from the object at a place. null is an empty text, and of a number what it is without one.
class EvidenceReader {
 public:
  explicit EvidenceReader(const JsonPlace& object) : object_(object) {}

  template <class T>
  void operator()(const char* key, T& field) const {
    if constexpr (std::is_same_v<T, int> || std::is_same_v<T, std::vector<int>>) {
      read(object_.at(key), field, range_of(key));
    } else {
      read(object_.at(key), field);
    }
  }

 private:
  static void read(const JsonPlace& json, std::string& text) { text = json.text_or_empty(); }
  static void read(const JsonPlace& json, bool& flag) { flag = json.truth(); }
  static void read(const JsonPlace& json, double& number) { number = json.number_or(number); }
  static void read(const JsonPlace& json, std::uint64_t& number) { number = json.unsigned_whole(); }
  static void read(const JsonPlace& json, std::int64_t& number) {
    number = json.whole(std::numeric_limits<std::int64_t>::min());
  }
  static void read(const JsonPlace& json, int& number, WholeRange range) {
    number = static_cast<int>(json.whole(range.least, range.most));
  }
  static void read(const JsonPlace& json, char& letter) {
    const std::string text = json.text_or_empty();
    if (text.size() != 1) json.fail("is not a single letter");
    letter = text.front();
  }
  template <class Enum>
  requires std::is_enum_v<Enum>
  static void read(const JsonPlace& json, Enum& value) {
    const std::optional<Enum> known = from_word<Enum>(words_of(value), json.text_or_empty());
    if (!known) json.fail(fmt::format("is none of {}", fmt::join(words_of(value), ", ")));
    value = *known;
  }
  template <class T>
  static void read(const JsonPlace& json, std::optional<T>& value) {
    if (!json.is_null()) read(json, value.emplace());
  }
  static void read(const JsonPlace& json, std::vector<std::string>& texts) { texts = json.texts(); }
  static void read(const JsonPlace& json, std::vector<int>& list, WholeRange range) {
    json.each([&](const JsonPlace& item) { read(item, list.emplace_back(), range); });
  }
  template <class T>
  static void read(const JsonPlace& json, std::vector<T>& list) {
    json.each([&](const JsonPlace& item) { read(item, list.emplace_back()); });
  }
  template <class T>
  requires std::is_class_v<T>
  static void read(const JsonPlace& json, T& record) { visit_fields(EvidenceReader(json), record); }

  const JsonPlace& object_;
};

}  // namespace

Json hang_value(const HangEvidence& evidence, const HangFinding& finding) {
  Envelope envelope{"hang", local_timestamp(), {}, {}};
  for (const HostEvidence& host : evidence.hosts) {
    add_once(envelope.where, host.host);
    if (envelope.command.empty() && !host.ranks.empty()) add_once(envelope.command, host.ranks.front().flight.command);
  }
  Json document = envelope_json(envelope);
  const auto add = [&](const char* key, const auto& field) { document[key] = fields_json(field); };
  document.update(fields_json<Finding>(finding));
  visit_occasion(add, evidence);
  add("groups", finding.groups);
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
  visit_occasion(EvidenceReader(document), evidence);
  const JsonPlace observed = document.at("observed");
  visit_observed(EvidenceReader(observed), evidence);
  return evidence;
}

namespace {

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace

std::string write_private_file(const std::string& text, const std::filesystem::path& folder, const std::string& name) {
  std::error_code failed;
  const std::filesystem::path real = std::filesystem::canonical(folder, failed);
  if (failed) return {};
  std::uint64_t random = 0;  // so that nobody can take the name first
  if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0) random = static_cast<std::uint64_t>(getpid());
  const std::filesystem::path fresh = real / fmt::format(".{}.{:016x}", name, random), path = real / name;
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return {};
  const bool written = write_all(fd, text);
  if (::close(fd) == 0 && written && std::rename(fresh.c_str(), path.c_str()) == 0) return path.string();
  ::unlink(fresh.c_str());
  return {};
}

}  // namespace busbar
