#include "driver/locate/locate_json.h"

#include "common/output/run_envelope.h"
#include "common/record/culprit_text.h"
#include "common/record/json_values.h"
#include "common/record/reported_environment.h"
#include "driver/locate/locate_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace busbar {
namespace {

Json names_of(const std::vector<int>& units, const std::vector<std::string>& names) {
  Json json = Json::array();
  for (const int unit : units) json.push_back(names.at(unit));
  return json;
}

Json culprit_json(const Culprit& c, const std::vector<std::string>& names) {
  return {{"what", word(kCulpritWords, c.what)},
          {"units", names_of(c.units, names)},
          {"outcome", name(c.outcome)},
          {"text", describe(c, names)},
          {"side", word(kSideWords, c.side)},
          {"rail", c.rail < 0 ? Json(nullptr) : Json(c.rail)},
          {"slow_rails", c.slow_rails},
          {"intermittent", c.intermittent},
          {"slow_partners", c.slow_partners},
          {"partners", c.partners},
          {"failed_confirmations", c.failed_confirmations},
          {"confirmations", c.confirmations},
          {"ratio", json_number(c.ratio)},
          {"ratio_error", json_number(c.ratio_error)},
          {"alone_ratio", c.alone_ratio > 0 ? json_number(c.alone_ratio) : Json(nullptr)},
          {"over_time", c.over_time > 0 ? json_number(c.over_time) : Json(nullptr)}};
}

Json slow_rank_json(const SlowRank& slow) {
  Json json{{"rank", slow.rank},      {"host", slow.host},         {"outcome", name(slow.outcome)},
            {"text", describe(slow)}, {"probe", name(slow.probe)}, {"ratio", slow.ratio}};
  if (slow.iterations == 0) {
    json["slow_sets"] = slow.slow_sets;
    json["sets"] = kSoloSets;
    return json;
  }
  json["times_last"] = slow.times_last;
  json["iterations"] = slow.iterations;
  json["late_s"] = json_seconds(slow.late_s);
  json["confirmed"] = slow.confirmed;
  return json;
}

Json ranks_json(const RankFinding& ranks) {
  Json slow = Json::array();
  for (const SlowRank& rank : ranks.slow) slow.push_back(slow_rank_json(rank));
  return {{"outcome", name(ranks.outcome)}, {"slow", std::move(slow)}, {"skipped", ranks.skipped}};
}

Json round_json(const MeasuredRound& m) {
  Json groups = Json::array();
  for (std::size_t g = 0; g < m.measured.size(); ++g) {
    const GroupMeasurement& measured = m.measured[g];
    groups.push_back({{"units", m.round.groups[g]},
                      {"bandwidth", json_number(measured.bandwidth)},
                      {"variation", json_number(measured.variation)},
                      {"p99_over_median", json_number(measured.tail)},
                      {"dips", measured.dips},
                      {"sustained", json_number(measured.sustained)},
                      {"repetitions", measured.repetitions}});
  }
  return {{"kind", kind_word(m.round.kind)},
          {"one_way", m.round.one_way},
          {"rail", m.round.rail < 0 ? Json(nullptr) : Json(m.round.rail)},
          {"time_s", json_number(m.time_s)},
          {"groups", std::move(groups)}};
}

/// Units by their numbers: [a, b, bandwidth, measurements]; one way from a to b.
Json matrix_json(const std::vector<PairCell>& cells, bool one_way) {
  Json json = Json::array();
  for (const PairCell& cell : cells) {
    if (cell.one_way == one_way) json.push_back({cell.a, cell.b, json_number(cell.bandwidth), cell.measurements});
  }
  return json;
}

Json search_json(const SearchOptions& s) {
  return {{"matchings", s.matchings},
          {"confirmations", s.confirmations},
          {"full", s.full},
          {"direction", s.direction},
          {"rails", s.rails},
          {"halving", s.halving},
          {"warn", s.warn},
          {"fail", s.fail},
          {"seed", s.seed},
          {"soak_s", s.soak_s},
          {"expected_bandwidth", s.expected_bandwidth}};
}

Json counters_json(const std::vector<DoctorRow>& rows) {
  Json json = Json::array();
  for (const DoctorRow& row : rows) {
    json.push_back({{"check", row.check},
                    {"subject", row.subject},
                    {"outcome", name(row.outcome)},
                    {"value", row.value},
                    {"reason", json_text_or_null(row.reason)}});
  }
  return json;
}

Json verdict_json(const LocateRun& run) {
  const LocateFinding& f = run.located.finding;
  Json culprits = Json::array(), rounds = Json::array();
  for (const Culprit& c : f.culprits) culprits.push_back(culprit_json(c, run.located.units));
  for (const MeasuredRound& round : run.rounds) rounds.push_back(round_json(round));
  return {{"outcome", name(run.outcome)},
          {"headline", headline(f, run.located.units)},
          {"pairs_outcome", name(f.outcome)},
          {"reason", json_text_or_null(f.reason)},
          {"culprits", std::move(culprits)},
          {"ranks", ranks_json(run.ranks)},
          {"counters", counters_json(run.counters)},
          {"noise", json_number(f.noise)},
          {"threshold", json_number(f.threshold)},
          {"median_bandwidth", json_number(f.median_bandwidth)},
          {"slow_share", json_number(f.slow_share)},
          {"expected_false", json_number(f.expected_false)},
          {"rounds", f.rounds},
          {"time_s", json_number(run.time_s)},
          {"message_bytes", run.shape.nbytes},
          {"repetitions", run.shape.repetitions},
          {"links", run.links},
          {"matrix", matrix_json(run.located.matrix, false)},
          {"matrix_one_way", matrix_json(run.located.matrix, true)},
          {"measured_rounds", std::move(rounds)},
          {"measured_rounds_left_out", run.rounds_left_out}};
}

}  // namespace

std::string locate_json(const RunInfo& info, const LocateRun& run, std::optional<ExitCode> code) {
  Json json = envelope_json(envelope_of("locate", info));
  json.update({{"launch_uuid", info.launch_uuid},
               {"environment", reported_environment(info.environment)},
               {"backend", info.backend},
               {"library", info.library_version},
               {"nranks", info.nranks},
               {"remarks", info.remarks},
               {"search", search_json(run.options.search)}});
  if (code) {
    json["unit"] = name(run.located.unit);
    json["units"] = run.located.units;
    json["locate"] = verdict_json(run);
  }
  json["exit_code"] = code ? Json(static_cast<int>(*code)) : Json(nullptr);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace busbar
