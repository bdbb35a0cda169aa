#include "common/record/json_values.h"

#include "common/base/error.h"
#include "common/base/read_file.h"
#include "common/base/text.h"
#include "common/record/history_run.h"
#include "common/record/json_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <fstream>
#include <iterator>
#include <unordered_map>

namespace busbar {
namespace {

/// Characters that steer a terminal, or show another text than is there, as escapes, which mean the same.
std::string escaped(std::string text) {
  const auto is_plain = [](char c) { return static_cast<unsigned char>(c) < 0x7F; };
  if (std::ranges::all_of(text, is_plain)) return text;
  std::string tame;
  for (std::string_view rest = text; !rest.empty();) {
    const Character c = first_character(rest);
    const bool escape = c.code != kNoCharacter && c.code >= 0x7F && is_misleading(c.code);
    tame += escape ? fmt::format("\\u{:04x}", static_cast<unsigned>(c.code)) : std::string(rest.substr(0, c.nbytes));
    rest.remove_prefix(c.nbytes);
  }
  return tame;
}

/// The parser quotes the last token, however long, and begins with the name of its exception.
std::string reason(const Json::exception& error) {
  constexpr std::size_t kLongest = 200;
  std::string_view what = error.what();
  if (what.starts_with('[')) what.remove_prefix(std::min(what.size(), what.find("] ") + 2));
  return printable(what.substr(0, kLongest)) + (what.size() > kLongest ? "..." : "");
}

/// Builds the document and counts during parsing, so that no value beyond a limit is built. The library's own builder
/// with a callback scans a whole list at the end of each of its objects, and copies a whole object when it grows.
class WithinLimits : public nlohmann::json_sax<Json> {
 public:
  explicit WithinLimits(const std::string& name) : name_(&name) {}

  Json take() {
    while (!open_.empty()) open_.back().members.empty() ? end_array() : end_object();
    return std::move(root_);
  }

  bool null() override { return count(nullptr); }
  bool boolean(bool value) override { return count(value); }
  bool number_integer(number_integer_t value) override { return count(value); }
  bool number_unsigned(number_unsigned_t value) override { return count(value); }
  bool number_float(number_float_t value, const string_t&) override { return count(value); }
  bool string(string_t& value) override {
    check_length(value);
    return count(std::move(value));
  }
  bool binary(binary_t&) override { return false; }  // not in JSON

  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }

  bool key(string_t& name) override {
    check_length(name);
    Open& in = open_.back();
    in.next = in.place_of(name);
    if (in.next == in.members.size()) in.members.emplace_back(std::move(name), nullptr);
    if (in.members.size() > kMostJsonMembers) fail("has an object of too many members");
    return true;
  }

  bool end_object() override {
    Json::object_t object;
    object.reserve(open_.back().members.size());
    for (auto& [name, value] : open_.back().members) object.emplace_back(std::move(name), std::move(value));
    return close(std::move(object));
  }

  bool end_array() override { return close(std::move(open_.back().items)); }

  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    fail("is not JSON: " + reason(error));
  }

 private:
  using Member = std::pair<std::string, Json>;
  /// A list or an object that has not ended.
  struct Open {
    Json::array_t items;
    std::vector<Member> members;
    std::size_t next = 0;                                 // of the members, whose value comes next; only for objects
    std::unordered_map<std::string, std::size_t> places;  // of the members, if there are many

    /// The index of the member of that name, or the one it will get.
    std::size_t place_of(const std::string& name) {
      constexpr std::size_t kFew = 32;
      if (members.size() < kFew)
        return static_cast<std::size_t>(std::ranges::find(members, name, &Member::first) - members.begin());
      for (std::size_t i = places.size(); i < members.size(); ++i) places.emplace(members[i].first, i);
      const auto found = places.find(name);
      return found == places.end() ? members.size() : found->second;
    }
  };

  [[noreturn]] void fail(const std::string& what) const { throw_bad_config(fmt::format("{}: {}", *name_, what)); }

  void check_length(const std::string& text) const {
    if (text.size() > kMostJsonText) fail("has too long a text");
  }

  void check_room() {
    if (open_.size() > kDeepestInput) fail("is nested too deep");
    if (++values_ > kMostJsonValues) fail("has too many values");
  }

  bool count(Json value) {
    check_room();
    return place(std::move(value));
  }

  bool open() {
    check_room();
    open_.emplace_back();
    return true;
  }

  bool close(Json value) {
    open_.pop_back();
    return place(std::move(value));
  }

  bool place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Open& in = open_.back(); in.members.empty()) {
      in.items.push_back(std::move(value));
    } else {
      in.members[in.next].second = std::move(value);
    }
    return true;
  }

  const std::string* name_;
  Json root_;
  std::vector<Open> open_;  // each within the last one
  std::size_t values_ = 0;
};

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// An allow-list, because people pass reports on: a site may keep anything in its environment.
constexpr std::array<std::string_view, 6> kPrefixes{"NCCL_", "CUDA_", "OMPI_", "UCX_", "SLURM_", "PMIX_"};

// JWT: SLURM_JWT holds the user's credential for Slurm's REST interface.
constexpr std::array<std::string_view, 7> kSecretWords{"TOKEN",  "KEY", "SECRET",    "PASSWORD",
                                                       "PASSWD", "JWT", "CREDENTIAL"};

bool is_secret(std::string_view name) {
  std::string upper(name);
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  return has_any(upper, kSecretWords);
}

}  // namespace

Json json_number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json json_microseconds(double time_s) { return json_number(std::round(time_s * 1e12) / 1e6); }

Json json_microseconds(const std::vector<double>& times_s) {
  return json_list(times_s, [](double time_s) { return json_microseconds(time_s); });
}

Json json_seconds(double time_s) { return json_number(std::round(time_s * 1e12) / 1e12); }

Json json_seconds(const std::vector<double>& times_s) {
  return json_list(times_s, [](double time_s) { return json_seconds(time_s); });
}

Json json_seconds(const std::optional<Interval>& interval_s) {
  if (!interval_s) return nullptr;
  return {{"low", json_seconds(interval_s->low)}, {"high", json_seconds(interval_s->high)}};
}

Json json_flag(bool value) { return value ? "true" : "false"; }

Json json_text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json json_ranks(const RankList& ranks, std::uint64_t& room) {
  if (ranks.size() > room) return compress_ranks(ranks);
  room -= ranks.size();
  return ranks.each();
}

std::string dump_json(const Json& value) { return escaped(value.dump(-1, ' ', false, Json::error_handler_t::replace)); }

std::string dump_document(const Json& document) {
  return escaped(document.dump(1, ' ', false, Json::error_handler_t::replace)) + "\n";
}

Json parse_json(std::string_view text, const std::string& name) {
  const auto fail = [&](const std::string& what) { throw_bad_config(fmt::format("{}: {}", name, what)); };
  if (text.size() > kMostFileBytes) fail("is too large");
  // The parser takes it for the end and would not read the rest; a power failure leaves such files.
  if (text.find('\0') != std::string_view::npos) fail("is not JSON: it holds a zero byte");
  WithinLimits document(name);
  Json::sax_parse(text, &document);
  return document.take();
}

Json parse_begun_json(std::string_view text) {
  const std::string no_name;
  WithinLimits document(no_name);
  try {
    Json::sax_parse(text, &document);
  } catch (const Error&) {
    // Then that was all.
  }
  return document.take();
}

void JsonPlace::fail(std::string_view what) const {
  throw_bad_config(fmt::format("{}: {}{}{}", *file_, place_, place_.empty() ? "" : " ", what));
}

bool JsonPlace::is_null() const { return json_->is_null(); }

bool JsonPlace::has(const char* key) const { return json_->is_object() && json_->contains(key); }

bool JsonPlace::holds(const char* key) const { return has(key) && !json_->at(key).is_null(); }

JsonPlace JsonPlace::at(const char* key) const {
  const std::string place = place_.empty() ? key : fmt::format("{}.{}", place_, key);
  if (!json_->is_object()) fail(place_.empty() ? "is not a JSON object" : "is not an object");
  if (!json_->contains(key))
    throw_bad_config(fmt::format("{}: {} is missing; is it a file that {} wrote?", *file_, place, writer_));
  return {json_->at(key), place, *file_, writer_};
}

void JsonPlace::each_member(const std::function<void(const std::string&, const JsonPlace&)>& visit) const {
  if (!json_->is_object()) fail("is not an object");
  for (const auto& [key, value] : json_->items())
    visit(key, JsonPlace(value, fmt::format("{}.{}", place_, printable(key)), *file_, writer_));
}

void JsonPlace::each(const std::function<void(const JsonPlace&)>& visit) const {
  if (!json_->is_array()) fail("is not a list");
  std::size_t i = 0;
  for (const Json& item : *json_) visit(JsonPlace(item, fmt::format("{}[{}]", place_, i++), *file_, writer_));
}

std::string JsonPlace::text() const {
  if (!json_->is_string()) fail("is not a string");
  return json_->get<std::string>();
}

std::string JsonPlace::text_or_empty() const { return is_null() ? std::string{} : text(); }

std::string JsonPlace::text_at(const char* key) const { return holds(key) ? at(key).text() : std::string(); }

std::vector<std::string> JsonPlace::texts() const {
  std::vector<std::string> result;
  each([&](const JsonPlace& item) { result.push_back(item.text()); });
  return result;
}

bool JsonPlace::truth() const {
  if (!json_->is_boolean()) fail("is neither true nor false");
  return json_->get<bool>();
}

std::int64_t JsonPlace::whole(std::int64_t least, std::int64_t most) const {
  const bool fits = json_->is_number_integer() &&
                    (!json_->is_number_unsigned() || json_->get<std::uint64_t>() <= static_cast<std::uint64_t>(most));
  const std::int64_t value = fits ? json_->get<std::int64_t>() : 0;
  if (!fits || value < least || value > most) fail(fmt::format("is not a whole number from {} to {}", least, most));
  return value;
}

std::uint64_t JsonPlace::unsigned_whole() const {
  if (!json_->is_number_unsigned()) fail("is not a whole number from 0 on");
  return json_->get<std::uint64_t>();
}

double JsonPlace::number() const {
  const double value = json_->is_number() ? json_->get<double>() : std::nan("");
  if (!std::isfinite(value)) fail("is not a number");
  return value;
}

double JsonPlace::number_or(double otherwise) const { return is_null() ? otherwise : number(); }

double JsonPlace::seconds() const {
  const double value_s = json_->is_number() ? json_->get<double>() : 0;
  if (!is_kept(value_s)) fail("is not a time above 0, of less than 30 years");
  return value_s;
}

Interval JsonPlace::interval_s() const {
  const Interval interval{at("low").seconds(), at("high").seconds()};
  if (interval.low > interval.high) fail("does not rise");
  return interval;
}

Json envelope_json(const Envelope& envelope) {
  return {{"document", envelope.document}, {"schema", kDocumentSchema}, {"version", BUSBAR_VERSION},
          {"time", envelope.time},         {"where", envelope.where},   {"command", envelope.command}};
}

std::vector<std::string> own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::vector<std::string_view> words = split_text(text, '\0');
  return {words.begin(), words.end()};
}

void require_schema(const Json& ours, const std::string& name) {
  const auto found = ours.find(ours.contains("schema") ? "schema" : "schema_version");  // 1 and 2 had both
  const bool whole = found != ours.end() && found->is_number_integer();
  if (whole && *found == kDocumentSchema) return;
  const std::string schema = whole ? fmt::format("schema {}", found->dump()) : "an unknown schema";
  const std::string version = text_at(ours, "version");
  throw_bad_config(fmt::format("{}: busbar {} wrote it, in {}, and this busbar reads only schema {}: {}", name,
                               version.empty() ? "of another version" : printable(version), schema, kDocumentSchema,
                               whole && *found > kDocumentSchema ? "use a newer busbar" : "run again"));
}

std::string document_of(const Json& json, const std::string& name) {
  if (!json.is_object()) return {};
  const std::string document = text_at(json, "document");
  // Schema 1 did not name the document.
  const auto is_first = [&](const char* key) { return json.contains(key) && json[key] == 1; };
  if (!document.empty() || is_first("schema") || is_first("schema_version")) require_schema(json, name);
  return document;
}

std::string who_reads(std::string_view document) {
  if (document == "hang" || document == "triage") return "; `busbar diagnose` reads it";
  return document.empty() ? "" : "; `busbar report` reads it";
}

Json read_document(std::string_view text, const std::string& name, std::string_view document) {
  Json json = parse_json(text, name);
  const std::string found = document_of(json, name);
  if (found == document) return json;
  throw_bad_config(
      fmt::format("{}: {}, not what busbar writes as `{}`{}", name,
                  found.empty() ? "this is not a document of busbar" : fmt::format("this is `{}`", printable(found)),
                  document, who_reads(found)));
}

std::vector<std::string> reported_environment(std::span<const std::string> variables) {
  std::vector<std::string> shown;
  for (const std::string& variable : variables) {
    const std::string_view name = std::string_view(variable).substr(0, variable.find('='));
    if (begins_with_any(name, kPrefixes)) shown.push_back(is_secret(name) ? std::string(name) + "=***" : variable);
  }
  return shown;
}

}  // namespace busbar
