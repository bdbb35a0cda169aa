#include "common/watch/hang_json.h"

#include "common/base/lists.h"
#include "common/base/timestamp.h"
#include "common/record/envelope.h"
#include "common/watch/hang_words.h"

#include <nlohmann/json.hpp>

namespace busbar {
namespace {

Json call_json(const CalledOperation& call) {
  return {{"communicator", call.communicator},
          {"collective", call.collective},
          {"count", call.count},
          {"dtype", call.dtype},
          {"op", call.op},
          {"root", call.root},
          {"nbytes", call.nbytes},
          {"in_place", call.in_place}};
}

Json finished_json(const FinishedStep& step) {
  return {{"phase", word(kPhaseWords, step.phase)},
          {"collective", step.collective},
          {"nbytes", step.nbytes},
          {"last_entered", step.last_entered},
          {"begun_age_s", json_number(step.begun_age_s)},
          {"ended_age_s", json_number(step.ended_age_s)}};
}

/// A byte that is no letter would be replaced by several.
std::string letter(char state) { return std::string(1, state > 32 && state < 127 ? state : '?'); }

Json rank_json(const RankEvidence& rank) {
  const FlightState& f = rank.flight;
  Json finished = Json::array();
  for (const FinishedStep& step : f.finished) finished.push_back(finished_json(step));
  return {{"rank", f.rank},
          {"nprocs", f.nprocs},
          {"host", f.host},
          {"jobid", f.jobid},
          {"pid", f.pid},
          {"pid_start", f.pid_start},
          {"command", f.command},
          {"started_unix_s", f.started_unix_s},
          {"life", word(kLifeWords, rank.process.life)},
          {"state", letter(rank.process.state)},
          {"wchan", rank.process.wchan},
          {"heartbeat_age_s", json_number(f.heartbeat_age_s)},
          {"ending", word(kEndingWords, f.ending)},
          {"phase", word(kPhaseWords, f.phase)},
          {"step", f.step},
          {"call", f.call ? call_json(*f.call) : Json(nullptr)},
          {"entered", f.entered},
          {"step_first", f.step_first},
          {"step_calls", f.step_calls},
          {"step_age_s", json_number(f.step_age_s)},
          {"limit_s", json_number(f.limit_s)},
          {"idle_s", json_number(f.idle_s)},
          {"error", json_text_or_null(f.error)},
          {"finished", std::move(finished)}};
}

Json host_json(const HostEvidence& host) {
  Json ranks = Json::array(), troubles = Json::array(), probes = Json::array();
  for (const RankEvidence& rank : host.ranks) ranks.push_back(rank_json(rank));
  for (const Trouble& trouble : host.troubles) {
    troubles.push_back({{"kind", word(kTroubleWords, trouble.kind)},
                        {"text", trouble.text},
                        {"slows", trouble.slows},
                        {"on_gpu", trouble.on_gpu}});
  }
  for (const PeerProbe& probe : host.probes) {
    probes.push_back({{"host", probe.host}, {"result", word(kProbeWords, probe.result)}, {"stalled", probe.stalled}});
  }
  return {{"host", host.host},
          {"reached", host.reached},
          {"why_not", json_text_or_null(host.why_not)},
          {"silence", word(kSilenceWords, host.silence)},
          {"net_bytes_per_s", host.net_bytes_per_s < 0 ? Json(nullptr) : json_number(host.net_bytes_per_s)},
          {"troubles", std::move(troubles)},
          {"probes", std::move(probes)},
          {"mtu", host.mtu},
          {"ranks", std::move(ranks)}};
}

Json ras_json(const RasEvidence& ras) {
  return {{"host", ras.host},   {"answered", ras.answered},   {"why_not", json_text_or_null(ras.why_not)},
          {"lines", ras.lines}, {"dead_pids", ras.dead_pids}, {"lagging_ranks", ras.lagging_ranks}};
}

Json observed_json(const HangEvidence& evidence) {
  Json hosts = Json::array(), ras = Json::array();
  for (const HostEvidence& host : evidence.hosts) hosts.push_back(host_json(host));
  for (const RasEvidence& answer : evidence.ras) ras.push_back(ras_json(answer));
  return {{"host_of_rank", evidence.host_of_rank}, {"hosts", std::move(hosts)}, {"ras", std::move(ras)}};
}

Json groups_json(const std::vector<RankGroup>& groups) {
  Json list = Json::array();
  for (const RankGroup& group : groups) {
    list.push_back({{"ranks", group.ranks}, {"doing", group.doing}, {"blamed", group.blamed}});
  }
  return list;
}

}  // namespace

Json hang_value(const HangEvidence& evidence, const HangFinding& finding) {
  Envelope envelope{"hang", local_timestamp(), {}, {}};
  for (const HostEvidence& host : evidence.hosts) {
    add_once(envelope.where, host.host);
    if (envelope.command.empty() && !host.ranks.empty()) add_once(envelope.command, host.ranks.front().flight.command);
  }
  Json document = envelope_json(envelope);
  document.update({{"verdict", name(finding.verdict)},
                   {"sentence", finding.sentence},
                   {"ranks", finding.ranks},
                   {"hosts", finding.hosts},
                   {"occasion", word(kOccasionWords, evidence.occasion)},
                   {"jobid", evidence.jobid},
                   {"reporter", evidence.reporter},
                   {"reporter_host", evidence.reporter_host},
                   {"nprocs", evidence.nprocs},
                   {"limit_s", json_number(evidence.limit_s)},
                   {"idle_s", json_number(evidence.idle_s)},
                   {"groups", groups_json(finding.groups)},
                   {"evidence", finding.evidence},
                   {"missing", finding.missing},
                   {"next", finding.next},
                   {"observed", observed_json(evidence)}});
  return document;
}

std::string hang_json(const HangEvidence& evidence, const HangFinding& finding) {
  return dump_json(hang_value(evidence, finding)) + "\n";
}

}  // namespace busbar
