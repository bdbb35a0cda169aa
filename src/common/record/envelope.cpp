#include "common/record/envelope.h"

#include "common/base/error.h"
#include "common/base/text.h"
#include "common/base/text_parts.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <iterator>

namespace busbar {
namespace {

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
