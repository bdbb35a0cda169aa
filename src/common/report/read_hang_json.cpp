#include "common/base/error.h"
#include "common/base/units.h"
#include "common/report/hang_json.h"
#include "common/report/hang_words.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <limits>

namespace busbar {
namespace {

using Json = nlohmann::json;

constexpr int kMostRanks = 1 << 24;

[[noreturn]] void fail(std::string_view what) {
  throw Error(ExitCode::bad_config, fmt::format("is no hang report that this suite wrote: {}", what));
}

const Json& at(const Json& object, const char* key) {
  if (!object.is_object()) fail(fmt::format("no object around '{}'", key));
  const auto found = object.find(key);
  if (found == object.end()) fail(fmt::format("'{}' is missing", key));
  return *found;
}

const Json& list_at(const Json& object, const char* key) {
  const Json& list = at(object, key);
  if (!list.is_array()) fail(fmt::format("'{}' is no list", key));
  return list;
}

std::string text_at(const Json& object, const char* key) {
  const Json& value = at(object, key);
  if (value.is_null()) return {};
  if (!value.is_string()) fail(fmt::format("'{}' is no text", key));
  return value.get<std::string>();
}

bool truth_at(const Json& object, const char* key) {
  const Json& value = at(object, key);
  if (!value.is_boolean()) fail(fmt::format("'{}' is neither true nor false", key));
  return value.get<bool>();
}

template <class Int>
Int whole(const Json& value, const char* key, Int least, Int most = std::numeric_limits<Int>::max()) {
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<Int>(value.get<std::uint64_t>())
                        : value.is_number_integer() && std::in_range<Int>(value.get<std::int64_t>());
  const Int number = fits ? value.get<Int>() : Int{};
  if (!fits || number < least || number > most) {
    fail(fmt::format("'{}' is no whole number from {} to {}", key, least, most));
  }
  return number;
}

template <class Int>
Int whole_at(const Json& object, const char* key, Int least, Int most = std::numeric_limits<Int>::max()) {
  return whole<Int>(at(object, key), key, least, most);
}

/// null stands for what JSON cannot say, or what was not known.
double number_at(const Json& object, const char* key, double otherwise) {
  const Json& value = at(object, key);
  if (value.is_null()) return otherwise;
  if (!value.is_number()) fail(fmt::format("'{}' is no number", key));
  return value.get<double>();
}

template <class Enum, std::size_t n>
Enum word_at(const Json& object, const char* key, const std::array<std::string_view, n>& words) {
  const std::optional<Enum> value = from_word<Enum>(words, text_at(object, key));
  if (!value) fail(fmt::format("'{}' is none of {}", key, fmt::join(words, ", ")));
  return *value;
}

std::vector<std::string> texts_at(const Json& object, const char* key) {
  std::vector<std::string> texts;
  for (const Json& item : list_at(object, key)) {
    if (!item.is_string()) fail(fmt::format("'{}' holds something else than texts", key));
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

template <class Int>
std::vector<Int> wholes_at(const Json& object, const char* key, Int least, Int most = std::numeric_limits<Int>::max()) {
  std::vector<Int> numbers;
  for (const Json& item : list_at(object, key)) numbers.push_back(whole<Int>(item, key, least, most));
  return numbers;
}

std::optional<CalledOperation> read_call(const Json& json) {
  if (json.is_null()) return std::nullopt;
  CalledOperation call;
  call.communicator = whole_at<int>(json, "communicator", 0);
  call.collective = text_at(json, "collective");
  call.count = whole_at<std::uint64_t>(json, "count", 0);
  call.dtype = text_at(json, "dtype");
  call.op = text_at(json, "op");
  call.root = whole_at<int>(json, "root", -1);
  call.nbytes = whole_at<std::uint64_t>(json, "nbytes", 0);
  call.in_place = truth_at(json, "in_place");
  return call;
}

FinishedStep read_finished(const Json& json) {
  FinishedStep step;
  step.phase = word_at<Phase>(json, "phase", kPhaseWords);
  step.collective = text_at(json, "collective");
  step.nbytes = whole_at<std::uint64_t>(json, "nbytes", 0);
  step.last_entered = whole_at<std::uint64_t>(json, "last_entered", 0);
  step.begun_age_s = number_at(json, "begun_age_s", 0);
  step.ended_age_s = number_at(json, "ended_age_s", 0);
  return step;
}

ProcessState read_process(const Json& json) {
  ProcessState process;
  process.life = word_at<ProcessState::Life>(json, "life", kLifeWords);
  const std::string state = text_at(json, "state");
  if (state.size() != 1) fail("'state' is no single letter");
  process.state = state.front();
  process.wchan = text_at(json, "wchan");
  return process;
}

FlightState read_flight_json(const Json& json) {
  FlightState f;
  f.rank = whole_at<int>(json, "rank", 0, kMostRanks);
  f.nprocs = whole_at<int>(json, "nprocs", 0, kMostRanks);
  f.host = text_at(json, "host");
  f.jobid = text_at(json, "jobid");
  f.pid = whole_at<std::int64_t>(json, "pid", std::numeric_limits<std::int64_t>::min());
  f.pid_start = whole_at<std::uint64_t>(json, "pid_start", 0);
  f.command = text_at(json, "command");
  f.started_unix_s = whole_at<std::int64_t>(json, "started_unix_s", std::numeric_limits<std::int64_t>::min());
  f.heartbeat_age_s = number_at(json, "heartbeat_age_s", 0);
  f.ending = word_at<Ending>(json, "ending", kEndingWords);
  f.phase = word_at<Phase>(json, "phase", kPhaseWords);
  f.step = text_at(json, "step");
  f.call = read_call(at(json, "call"));
  f.entered = whole_at<std::uint64_t>(json, "entered", 0);
  f.step_first = whole_at<std::uint64_t>(json, "step_first", 0);
  f.step_calls = whole_at<std::uint64_t>(json, "step_calls", 0);
  f.step_age_s = number_at(json, "step_age_s", 0);
  f.limit_s = number_at(json, "limit_s", 0);
  f.idle_s = number_at(json, "idle_s", 0);
  f.error = text_at(json, "error");
  for (const Json& step : list_at(json, "finished")) f.finished.push_back(read_finished(step));
  return f;
}

HostEvidence read_host(const Json& json) {
  HostEvidence host;
  host.host = text_at(json, "host");
  host.reached = truth_at(json, "reached");
  host.why_not = text_at(json, "why_not");
  host.net_bytes_per_s = number_at(json, "net_bytes_per_s", -1);
  for (const Json& t : list_at(json, "troubles")) {
    host.troubles.push_back({word_at<Trouble::Kind>(t, "kind", kTroubleWords), text_at(t, "text")});
  }
  for (const Json& p : list_at(json, "probes")) {
    host.probes.push_back(
        {text_at(p, "host"), word_at<PeerProbe::Result>(p, "result", kProbeWords), truth_at(p, "stalled")});
  }
  host.mtu = whole_at<int>(json, "mtu", 0);
  for (const Json& rank : list_at(json, "ranks")) host.ranks.push_back({read_flight_json(rank), read_process(rank)});
  return host;
}

RasEvidence read_ras_json(const Json& json) {
  RasEvidence ras;
  ras.host = text_at(json, "host");
  ras.answered = truth_at(json, "answered");
  ras.why_not = text_at(json, "why_not");
  ras.lines = texts_at(json, "lines");
  ras.dead_pids = wholes_at<std::int64_t>(json, "dead_pids", std::numeric_limits<std::int64_t>::min());
  ras.lagging_ranks = wholes_at<int>(json, "lagging_ranks", 0, kMostRanks);
  return ras;
}

}  // namespace

HangEvidence read_hang_json(std::string_view text) {
  Json document;
  try {
    document = Json::parse(text);
  } catch (const Json::exception& e) {
    fail(fmt::format("no JSON: {}", printable(e.what())));
  }
  if (text_at(document, "kind") != "hang") fail("'kind' is not 'hang'");
  if (const int schema = whole_at<int>(document, "schema", 0); schema != 1) {
    fail(fmt::format("schema {}, this version reads schema 1", schema));
  }
  HangEvidence evidence;
  evidence.occasion = word_at<HangEvidence::Occasion>(document, "occasion", kOccasionWords);
  evidence.jobid = text_at(document, "jobid");
  evidence.reporter = text_at(document, "reporter");
  evidence.nprocs = whole_at<int>(document, "nprocs", 0, kMostRanks);
  evidence.limit_s = number_at(document, "limit_s", 0);
  evidence.idle_s = number_at(document, "idle_s", 0);
  const Json& observed = at(document, "observed");
  evidence.host_of_rank = texts_at(observed, "host_of_rank");
  for (const Json& host : list_at(observed, "hosts")) evidence.hosts.push_back(read_host(host));
  for (const Json& ras : list_at(observed, "ras")) evidence.ras.push_back(read_ras_json(ras));
  return evidence;
}

}  // namespace busbar
