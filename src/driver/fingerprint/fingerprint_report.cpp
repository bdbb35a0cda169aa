#include "driver/fingerprint/fingerprint_report.h"

#include "common/base/timestamp.h"
#include "common/base/units.h"
#include "common/mpi/session.h"
#include "common/record/envelope.h"
#include "common/record/json_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace busbar {
namespace {

std::vector<std::string> names(CollectiveId id, const std::vector<OmpiChoice>& choices) {
  std::vector<std::string> result;
  for (const OmpiChoice& choice : choices) result.push_back(describe(id, choice));
  return result;
}

/// The other algorithms that send the same as this one, in words.
std::string alike(CollectiveId id, const KnownFingerprint& one, const std::vector<KnownFingerprint>& all) {
  std::vector<std::string> others;
  for (const KnownFingerprint& other : all) {
    if (&other != &one && other.why_not.empty() && other.sent == one.sent) others.push_back(describe(id, other.choice));
  }
  return others.empty() ? "" : fmt::format("   as {}", fmt::join(others, ", "));
}

Json sent_json(const SentMatrix& sent) {
  Json ranks = Json::array();
  for (std::size_t r = 0; r < sent.size(); ++r) {
    const Sent sum = total(sent[r]);
    Json peers = Json::array();
    for (std::size_t p = 0; p < sent[r].size(); ++p) {
      const Sent& to = sent[r][p];
      if (to.messages > 0) peers.push_back({{"rank", p}, {"messages", to.messages}, {"bytes", to.nbytes}});
    }
    ranks.push_back({{"rank", r}, {"messages", sum.messages}, {"bytes", sum.nbytes}, {"to", peers}});
  }
  return ranks;
}

Json case_json(const FingerprintResult& r) {
  const FingerprintCase& c = r.fingerprint_case;
  Json algorithms = Json::array();
  for (const KnownFingerprint& k : r.known) {
    Json one{{"id", k.choice.algorithm},
             {"name", ompi_algorithm_name(c.collective->id, k.choice.algorithm)},
             {"segment_bytes", k.choice.segment_bytes}};
    if (k.why_not.empty()) {
      one["sent"] = sent_json(k.sent);
    } else {
      one["why_not"] = k.why_not;
    }
    algorithms.push_back(one);
  }
  Json result{{"collective", c.collective->name},
              {"bytes", c.nbytes},
              {"dtype", name(c.dtype)},
              {"nranks", r.nranks},
              {"library", r.library},
              {"setting", r.setting},
              {"sent", sent_json(r.sent)},
              {"consistent", names(c.collective->id, consistent(r.sent, r.known))}};
  if (r.without_rules) result["without_rules"] = sent_json(*r.without_rules);
  result["algorithms"] = algorithms;
  return result;
}

}  // namespace

std::string describe_consistent(const Collective& collective, const std::vector<OmpiChoice>& choices) {
  if (choices.empty()) return "{}: none of the algorithms below";
  return fmt::format("{{{}}}{}", fmt::join(names(collective.id, choices), ", "),
                     choices.size() > 1 ? ": alike here" : "");
}

std::string fingerprint_text(const FingerprintResult& r) {
  const FingerprintCase& c = r.fingerprint_case;
  std::string text = fmt::format("# {} of {} {}{} on {} ranks, {}\n", c.collective->name, format_bytes(c.nbytes),
                                 name(c.dtype), c.op ? fmt::format(" {}", name(*c.op)) : "", r.nranks, r.library);
  text += fmt::format("{:<26}{}\n", r.setting, describe(r.sent));
  if (!r.known.empty()) {
    text +=
        fmt::format("{:<26}{}\n", "  consistent with", describe_consistent(*c.collective, consistent(r.sent, r.known)));
  }
  if (r.without_rules) {
    text += fmt::format("{:<26}{}{}\n", "without the rules file", describe(*r.without_rules),
                        *r.without_rules == r.sent ? ": the file changes nothing here" : "");
  }
  for (const KnownFingerprint& k : r.known) {
    text +=
        fmt::format("  {:<24}{}\n", describe(c.collective->id, k.choice),
                    k.why_not.empty() ? describe(k.sent) + alike(c.collective->id, k, r.known) : "n/a: " + k.why_not);
  }
  return text;
}

std::string fingerprint_json(const std::vector<FingerprintResult>& results) {
  Json cases = Json::array();
  for (const FingerprintResult& result : results) cases.push_back(case_json(result));
  Json document = envelope_json({"fingerprint", local_timestamp(), {hostname()}, own_command()});
  document["cases"] = std::move(cases);
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace busbar
