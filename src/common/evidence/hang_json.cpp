#include "common/base/lists.h"
#include "common/base/random_source.h"
#include "common/base/say.h"
#include "common/base/units.h"
#include "common/evidence/evidence_fields.h"
#include "common/evidence/hang_evidence.h"
#include "common/record/json_fields.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cstdio>
#include <system_error>

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

void check_ranks(const JsonPlace& document, const HangEvidence& evidence) {
  constexpr int kMostRanks = 1 << 24;
  const auto check = [&](int number) {
    if (number < 0 || number > kMostRanks) document.fail(fmt::format("has nprocs or a rank of {}", number));
  };
  check(evidence.nprocs);
  for (const HostEvidence& host : evidence.hosts) {
    for (const RankEvidence& rank : host.ranks) {
      check(rank.flight.rank);
      check(rank.flight.nprocs);
    }
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
  visit_occasion(reader_of<true>(document), evidence);
  const JsonPlace observed = document.at("observed");
  visit_observed(reader_of<true>(observed), evidence);
  check_ranks(document, evidence);
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
