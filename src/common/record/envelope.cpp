#include "common/record/envelope.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/units.h"
#include "common/record/parse_json.h"
#include "common/record/upgrade.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>

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
        fmt::format("{}: {}, not what busbar writes as `{}`", name,
                    found.empty() ? "this is not a document of busbar" : fmt::format("this is `{}`", found), document));
  }
  const int schema = schema_of(json);
  if (schema_of_file != nullptr) *schema_of_file = schema;
  if (schema < 1 || schema > kDocumentSchema) {
    throw_bad_config(fmt::format("{}: schema {}, this version reads schemas up to {}", name, schema, kDocumentSchema));
  }
  return schema < kDocumentSchema ? upgraded(std::move(json), document) : json;
}

}  // namespace busbar
