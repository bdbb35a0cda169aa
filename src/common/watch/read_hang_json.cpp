#include "common/record/envelope.h"
#include "common/record/json_place.h"
#include "common/watch/hang_json.h"
#include "common/watch/hang_words.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <limits>

namespace busbar {
namespace {

constexpr int kMostRanks = 1 << 24;
constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();

/// null is an empty text.
std::string text_at(const JsonPlace& object, const char* key) { return object.at(key).text_or_empty(); }

int rank_at(const JsonPlace& object, const char* key, int least = 0) {
  return static_cast<int>(object.at(key).whole(least, kMostRanks));
}

std::uint64_t count_at(const JsonPlace& object, const char* key) { return object.at(key).unsigned_whole(); }

double number_at(const JsonPlace& object, const char* key, double otherwise) {
  return object.at(key).number_or(otherwise);
}

template <class Enum, std::size_t n>
Enum word_at(const JsonPlace& object, const char* key, const std::array<std::string_view, n>& words) {
  const std::optional<Enum> value = from_word<Enum>(words, text_at(object, key));
  if (!value) object.at(key).fail(fmt::format("is none of {}", fmt::join(words, ", ")));
  return *value;
}

std::optional<CalledOperation> read_call(const JsonPlace& json) {
  if (json.is_null()) return std::nullopt;
  CalledOperation call;
  call.communicator = static_cast<int>(json.at("communicator").whole(0, std::numeric_limits<int>::max()));
  call.collective = text_at(json, "collective");
  call.count = count_at(json, "count");
  call.dtype = text_at(json, "dtype");
  call.op = text_at(json, "op");
  call.root = rank_at(json, "root", -1);
  call.nbytes = count_at(json, "nbytes");
  call.in_place = json.at("in_place").truth();
  return call;
}

FinishedStep read_finished(const JsonPlace& json) {
  FinishedStep step;
  step.phase = word_at<Phase>(json, "phase", kPhaseWords);
  step.collective = text_at(json, "collective");
  step.nbytes = count_at(json, "nbytes");
  step.last_entered = count_at(json, "last_entered");
  step.begun_age_s = number_at(json, "begun_age_s", 0);
  step.ended_age_s = number_at(json, "ended_age_s", 0);
  return step;
}

ProcessState read_process(const JsonPlace& json) {
  ProcessState process;
  process.life = word_at<ProcessState::Life>(json, "life", kLifeWords);
  const std::string state = text_at(json, "state");
  if (state.size() != 1) json.at("state").fail("is no single letter");
  process.state = state.front();
  process.wchan = text_at(json, "wchan");
  return process;
}

FlightState read_flight_json(const JsonPlace& json) {
  FlightState f;
  f.rank = rank_at(json, "rank");
  f.nprocs = rank_at(json, "nprocs");
  f.host = text_at(json, "host");
  f.jobid = text_at(json, "jobid");
  f.pid = json.at("pid").whole(kLeast);
  f.pid_start = count_at(json, "pid_start");
  f.command = text_at(json, "command");
  f.started_unix_s = json.at("started_unix_s").whole(kLeast);
  f.heartbeat_age_s = number_at(json, "heartbeat_age_s", 0);
  f.ending = word_at<Ending>(json, "ending", kEndingWords);
  f.phase = word_at<Phase>(json, "phase", kPhaseWords);
  f.step = text_at(json, "step");
  f.call = read_call(json.at("call"));
  f.entered = count_at(json, "entered");
  f.step_first = count_at(json, "step_first");
  f.step_calls = count_at(json, "step_calls");
  f.step_age_s = number_at(json, "step_age_s", 0);
  f.limit_s = number_at(json, "limit_s", 0);
  f.idle_s = number_at(json, "idle_s", 0);
  f.error = text_at(json, "error");
  json.at("finished").each([&](const JsonPlace& step) { f.finished.push_back(read_finished(step)); });
  return f;
}

// Reports of version 0.1.0 tell what follows in their sentences only. Nothing else reads those.

Silence silence_of_sentence(std::string_view why_not) {
  if (why_not.starts_with("connected, but no answer")) return Silence::mute;
  if (why_not.starts_with("connection refused")) return Silence::refused;
  if (why_not.starts_with("no route")) return Silence::no_route;
  if (why_not.starts_with("an answer that cannot be read")) return Silence::unreadable;
  return why_not.empty() ? Silence::none : Silence::no_answer;
}

/// Of "rank 0 on node0".
std::string host_of_sentence(const std::string& reporter) {
  const std::size_t on = reporter.rfind(" on ");
  return on == std::string::npos ? "" : reporter.substr(on + 4);
}

Trouble trouble_of_sentence(Trouble::Kind kind, const std::string& text) {
  const auto has = [&](const char* part) { return text.find(part) != std::string::npos; };
  return {.kind = kind, .text = text, .slows = has("CPU") || has("throttled"), .on_gpu = has("GPU")};
}

Trouble read_trouble(const JsonPlace& json) {
  Trouble trouble = trouble_of_sentence(word_at<Trouble::Kind>(json, "kind", kTroubleWords), text_at(json, "text"));
  if (json.holds("slows")) trouble.slows = json.at("slows").truth();
  if (json.holds("on_gpu")) trouble.on_gpu = json.at("on_gpu").truth();
  return trouble;
}

HostEvidence read_host(const JsonPlace& json) {
  HostEvidence host;
  host.host = text_at(json, "host");
  host.reached = json.at("reached").truth();
  host.why_not = text_at(json, "why_not");
  host.net_bytes_per_s = number_at(json, "net_bytes_per_s", -1);
  host.silence =
      json.holds("silence") ? word_at<Silence>(json, "silence", kSilenceWords) : silence_of_sentence(host.why_not);
  json.at("troubles").each([&](const JsonPlace& t) { host.troubles.push_back(read_trouble(t)); });
  json.at("probes").each([&](const JsonPlace& p) {
    host.probes.push_back(
        {text_at(p, "host"), word_at<PeerProbe::Result>(p, "result", kProbeWords), p.at("stalled").truth()});
  });
  host.mtu = static_cast<int>(json.at("mtu").whole(0, std::numeric_limits<int>::max()));
  json.at("ranks").each([&](const JsonPlace& rank) {
    host.ranks.push_back({read_flight_json(rank), read_process(rank)});
  });
  return host;
}

RasEvidence read_ras_json(const JsonPlace& json) {
  RasEvidence ras;
  ras.host = text_at(json, "host");
  ras.answered = json.at("answered").truth();
  ras.why_not = text_at(json, "why_not");
  ras.lines = json.at("lines").texts();
  json.at("dead_pids").each([&](const JsonPlace& pid) { ras.dead_pids.push_back(pid.whole(kLeast)); });
  json.at("lagging_ranks").each([&](const JsonPlace& rank) {
    ras.lagging_ranks.push_back(static_cast<int>(rank.whole(0, kMostRanks)));
  });
  return ras;
}

}  // namespace

HangEvidence read_hang_json(std::string_view text) {
  const std::string name = "is no hang report that this suite wrote";  // callers put the file's name in front
  const Json json = read_document(text, name, "hang");
  const JsonPlace document(json, "", name, "this suite's watchdog");
  HangEvidence evidence;
  evidence.occasion = word_at<HangEvidence::Occasion>(document, "occasion", kOccasionWords);
  evidence.jobid = text_at(document, "jobid");
  evidence.reporter = text_at(document, "reporter");
  evidence.reporter_host =
      document.holds("reporter_host") ? text_at(document, "reporter_host") : host_of_sentence(evidence.reporter);
  evidence.nprocs = rank_at(document, "nprocs");
  evidence.limit_s = number_at(document, "limit_s", 0);
  evidence.idle_s = number_at(document, "idle_s", 0);
  const JsonPlace observed = document.at("observed");
  evidence.host_of_rank = observed.at("host_of_rank").texts();
  observed.at("hosts").each([&](const JsonPlace& host) { evidence.hosts.push_back(read_host(host)); });
  observed.at("ras").each([&](const JsonPlace& ras) { evidence.ras.push_back(read_ras_json(ras)); });
  return evidence;
}

}  // namespace busbar
