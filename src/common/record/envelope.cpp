#include "common/record/envelope.h"

#include "common/base/error.h"
#include "common/base/lists.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <utility>

namespace busbar {
namespace {

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Before there was an envelope each tool said it in its own way.
std::string older_document_of(const Json& json) {
  if (text_at(json, "kind") == "accept") return "accept";
  if (text_at(json, "kind") == "merge") return "merge";
  if (text_at(json, "kind") == "hang") return "hang";
  if (text_at(json, "tool") == "compare") return "compare";
  if (text_at(json, "tool") == "locate") return "locate";
  if (text_at(json, "program") == "busbar doctor") return "doctor";
  if (text_at(json, "program") == "busbar fingerprint") return "fingerprint";
  if (json.contains("schema") && json.contains("verdict") && json.contains("communicators")) return "diagnosis";
  return {};
}

/// Takes a member out; null where there is none.
Json take(Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return nullptr;
  Json value = std::move(*found);
  json.erase(found);
  return value;
}

/// What the old form said, as the envelope says it; members of the body keep their order behind it.
Json with_envelope(Json json, std::string_view document, Json time, Json where, Json command) {
  Json upgraded{{"document", document},
                {"schema", kDocumentSchema},
                {"version", take(json, "version")},
                {"time", time.is_null() ? Json("") : std::move(time)},
                {"where", where.is_null() ? Json::array() : std::move(where)},
                {"command", command.is_null() ? Json::array() : std::move(command)}};
  for (const char* old : {"kind", "schema", "schema_version", "suite", "tool", "program"}) take(json, old);
  for (auto& [key, value] : json.items()) upgraded[key] = std::move(value);
  return upgraded;
}

Json as_seconds(Json value, double unit) {
  if (value.is_number()) return json_seconds(value.get<double>() * unit);
  if (value.is_array()) {
    for (Json& item : value) item = as_seconds(std::move(item), unit);
  }
  return value;
}

/// "median_us" becomes "median_s", wherever it stands.
Json in_seconds(Json json) {
  if (json.is_array()) {
    for (Json& item : json) item = in_seconds(std::move(item));
  }
  if (!json.is_object()) return json;
  Json renamed = Json::object();
  for (auto& [key, value] : json.items()) {
    const bool us = key.ends_with("_us"), ns = key.ends_with("_ns");
    const std::string name = us || ns ? key.substr(0, key.size() - 2) + "s" : key;
    renamed[name] = us || ns ? as_seconds(std::move(value), us ? 1e-6 : 1e-9) : in_seconds(std::move(value));
  }
  return renamed;
}

/// The text that `key` has in each of the objects of a list, each once.
Json texts_of(const Json& list, const char* key) {
  Json texts = Json::array();
  if (!list.is_array()) return texts;
  for (const Json& item : list) {
    if (!item.is_object() || !item.contains(key) || !item[key].is_string()) continue;
    if (std::find(texts.begin(), texts.end(), item[key]) == texts.end()) texts.push_back(item[key]);
  }
  return texts;
}

Json upgrade_accept(Json json) {
  Json time = take(json, "start_time"), command = take(json, "command");
  Json where = texts_of(json.contains("hosts") ? json["hosts"] : Json(), "name");
  if (json.contains("counters") && json["counters"].is_array()) {
    for (Json& row : json["counters"]) {
      if (row.is_object()) row.update({{"must_agree", false}, {"if_differs", "WARN"}, {"ranks", Json::array()}});
    }
  }
  return with_envelope(std::move(json), "accept", std::move(time), std::move(where), std::move(command));
}

/// compare and locate: what a job of ranks says of itself.
Json upgrade_job(Json json, std::string_view document) {
  Json time = take(json, "start_time"), command = take(json, "args"), where = take(json, "hosts");
  return in_seconds(with_envelope(std::move(json), document, std::move(time), std::move(where), std::move(command)));
}

Json upgrade_doctor(Json json) {
  Json time, where;
  if (json.contains("nodes")) {
    where = texts_of(json["nodes"], "host");
    Json times = texts_of(json["nodes"], "time");
    if (!times.empty()) time = *std::min_element(times.begin(), times.end());
  }
  return with_envelope(std::move(json), "doctor", std::move(time), std::move(where), nullptr);
}

Json upgrade_merge(Json json) {
  Json where = Json::array(), time;
  if (json.contains("launches") && json["launches"].is_array()) {
    for (const Json& launch : json["launches"]) {
      if (!launch.is_object() || !launch.contains("hosts") || !launch["hosts"].is_array()) continue;
      for (const Json& host : launch["hosts"]) {
        if (std::find(where.begin(), where.end(), host) == where.end()) where.push_back(host);
      }
    }
    Json times = texts_of(json["launches"], "start_time");
    if (!times.empty()) time = *std::min_element(times.begin(), times.end());
  }
  return in_seconds(with_envelope(std::move(json), "merge", std::move(time), std::move(where), nullptr));
}

/// Hang reports say neither when nor how their job was started. Their "hosts" are those to blame.
Json upgrade_hang(Json json) {
  Json where;
  if (json.contains("observed") && json["observed"].is_object() && json["observed"].contains("hosts")) {
    where = texts_of(json["observed"]["hosts"], "host");
  }
  return with_envelope(std::move(json), "hang", nullptr, std::move(where), nullptr);
}

/// A document of schema 1 as one of kDocumentSchema: the envelope in front, microseconds as seconds. What is missing or
/// of another type is left for the reader to complain about. One function per kind of document.
Json upgraded(Json json, std::string_view document) {
  if (document == "accept") return upgrade_accept(std::move(json));
  if (document == "compare" || document == "locate") return upgrade_job(std::move(json), document);
  if (document == "doctor") return upgrade_doctor(std::move(json));
  if (document == "merge") return upgrade_merge(std::move(json));
  if (document == "hang") return upgrade_hang(std::move(json));
  return with_envelope(std::move(json), document, nullptr, nullptr, nullptr);
}

}  // namespace

Json envelope_json(const Envelope& envelope) {
  return {{"document", envelope.document}, {"schema", kDocumentSchema}, {"version", BUSBAR_VERSION},
          {"time", envelope.time},         {"where", envelope.where},   {"command", envelope.command}};
}

std::vector<std::string> own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::string document_of(const Json& json) {
  if (!json.is_object()) return {};
  const std::string document = text_at(json, "document");
  return document.empty() ? older_document_of(json) : document;
}

std::string who_reads(std::string_view document) {
  constexpr std::array<std::string_view, 5> kOfReport{"accept", "compare", "doctor", "locate", "merge"};
  if (document == "hang") return "; `busbar diagnose` reads it";
  return contains(kOfReport, document) ? "; `busbar report` reads it" : "";
}

int schema_of(const Json& json) {
  if (!json.is_object()) return 0;
  const auto found = json.find(json.contains("schema") ? "schema" : "schema_version");
  if (found == json.end()) return 1;  // the first documents of compare and locate were told by their tool alone
  const bool usable = found->is_number_integer() && *found >= 1 && *found < 1000;
  return usable ? found->get<int>() : 0;
}

Json read_document(std::string_view text, const std::string& name, std::string_view document, int* schema_of_file) {
  Json json = parse_json(text, name);
  const std::string found = document_of(json);
  if (found != document) {
    throw_bad_config(
        fmt::format("{}: {}, not what busbar writes as `{}`{}", name,
                    found.empty() ? "this is not a document of busbar" : fmt::format("this is `{}`", found), document,
                    who_reads(found)));
  }
  const int schema = schema_of(json);
  if (schema_of_file != nullptr) *schema_of_file = schema;
  if (schema < 1 || schema > kDocumentSchema) {
    throw_bad_config(fmt::format("{}: schema {}, this version reads schemas up to {}", name, schema, kDocumentSchema));
  }
  return schema < kDocumentSchema ? upgraded(std::move(json), document) : json;
}

}  // namespace busbar
