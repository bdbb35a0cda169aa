#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/output/json_report.h"
#include "common/record/accept_fields.h"
#include "common/record/culprit.h"
#include "common/record/json_fields.h"
#include "common/record/json_values.h"
#include "common/statistics/interval.h"
#include "driver/locate/locate_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

namespace busbar {

void visit_fields(auto&& visit, SearchOptions& s) {
  BUSBAR_FIELDS(visit, s, matchings, confirmations, full, direction, rails, halving, warn, fail, seed, soak_s, looks,
                looks_apart_s, expected_bandwidth);
}

namespace {

using Kind = LocateRound::Kind;

std::string count_text(int some, int all) { return all == 0 ? "-" : fmt::format("{} of {}", some, all); }

std::string suspects_table(const AcceptResult::Located& located) {
  if (located.finding.culprits.empty()) return "";
  std::size_t width = 7;
  for (const Culprit& c : located.finding.culprits) width = std::max(width, who(c, located.units).size());
  std::string text = fmt::format("#\n# {:<{}}  {:>9}  {:>13}  {:>13}  {:>9}  {:>5}  {:>5}\n", "suspect", width,
                                 "slow with", "share", "confirmations", "side", "rails", "alone");
  for (const Culprit& c : located.finding.culprits) {
    constexpr const char* kSides[] = {"-", "both ways", "transmit", "receive"};
    std::string rails = c.rail >= 0 ? std::to_string(c.rail) : "-";
    if (!c.slow_rails.empty()) rails = fmt::format("{}", fmt::join(c.slow_rails, ","));
    text += fmt::format("# {:<{}}  {:>9}  {:>13}  {:>13}  {:>9}  {:>5}  {:>5}  {}{}\n", who(c, located.units), width,
                        count_text(c.slow_partners, c.partners),
                        c.ratio > 0 ? fmt::format("{:.2f} +- {:.2f}", c.ratio, c.ratio_error) : "-",
                        count_text(c.failed_confirmations, c.confirmations), kSides[static_cast<int>(c.side)], rails,
                        c.alone_ratio > 0 ? fmt::format("{:.2f}", c.alone_ratio) : "-", name(c.outcome),
                        c.intermittent ? ", intermittent" : "");
  }
  return text;
}

std::string counters_text(const LocateRun& run) {
  std::string text;
  for (const DoctorRow& row : run.counters) {
    text += fmt::format("{}: counter: {}: {} {}{}\n", name(row.outcome), row.subject, row.check, row.value,
                        row.reason.empty() ? "" : fmt::format(": {}", row.reason));
  }
  return text;
}

std::string measured_text(const LocateRun& run) {
  const LocateVerdict& f = run.located.finding;
  std::string text;
  if (run.shape.repetitions > 0) {
    std::map<Kind, int> counts;
    for (const MeasuredRound& round : run.rounds) ++counts[round.round.kind];
    const auto kinds = mapped(counts, [](const auto& c) { return fmt::format("{} {}", c.second, name(c.first)); });
    text += fmt::format("# {} {}s; {} rounds ({}{}) in {:.1f} s; messages of {} on {} of a pair, {} repetitions\n",
                        run.located.units.size(), name(run.located.unit), f.rounds, joined_words(kinds, ", "),
                        run.rounds_left_out > 0 ? ", ..." : "", run.time_s, format_bytes(run.shape.nbytes),
                        counted(run.links, "link"), run.shape.repetitions);
  }
  if (run.located.units.size() < 2) return text;
  text += fmt::format(
      "# noise {:.1f} %, slow below {:.2f} of the median {}; seed {}; {:.2g} of {} expected to be "
      "blamed by chance\n",
      100 * f.noise, f.threshold, bandwidth_text(f.median_bandwidth), run.options.search.seed, f.expected_false,
      run.located.units.size());
  return text;
}

constexpr std::size_t kNumbersUpTo = 16;
constexpr std::size_t kMapUpTo = 32;

/// Shares of the median by (row, column).
using Shares = std::map<std::pair<int, int>, double>;

std::size_t name_width(const std::vector<std::string>& names) {
  std::size_t width = 4;
  for (const std::string& name : names) width = std::max(width, name.size());
  return std::min<std::size_t>(width, 24);
}

/// A line per row; `cell_of(share, is_own)`: a cell of it, without a share if nothing was measured.
template <class CellOf>
std::string rows_text(const Shares& shares, const std::vector<std::string>& names, std::string_view gap,
                      CellOf cell_of) {
  const std::size_t width = name_width(names);
  std::string text;
  for (std::size_t row = 0; row < names.size(); ++row) {
    std::string line = fmt::format("# {:>{}}{}", names[row].substr(0, width), width, gap);
    for (std::size_t column = 0; column < names.size(); ++column) {
      const auto found = shares.find({static_cast<int>(row), static_cast<int>(column)});
      line += cell_of(found == shares.end() ? std::nullopt : std::optional(found->second), row == column);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string numbers(const Shares& shares, const std::vector<std::string>& names) {
  std::string text = fmt::format("# {:>{}}", "", name_width(names));
  for (std::size_t column = 0; column < names.size(); ++column) text += fmt::format(" {:>4} ", column);
  text.pop_back();
  return text + "\n" + rows_text(shares, names, "", [](std::optional<double> share, bool is_own) {
           return share ? fmt::format(" {:>4.0f}{}", 100 * *share,
                                      *share < 0.8   ? '#'
                                      : *share < 0.9 ? '*'
                                                     : ' ')
                        : fmt::format(" {:>4} ", is_own ? "-" : ".");
         });
}

std::string suspect_rows(const Shares& shares, const AcceptResult::Located& located) {
  constexpr std::size_t kMost = 12;
  std::set<int> suspects;
  for (const Culprit& culprit : located.finding.culprits) suspects.insert(culprit.units.begin(), culprit.units.end());
  std::string text;
  for (const int unit : suspects) {
    std::string line;
    std::size_t shown = 0;
    for (auto at = shares.lower_bound({unit, 0}); at != shares.end() && at->first.first == unit; ++at) {
      if (++shown > kMost) break;
      line += fmt::format("  {} {:.0f}", located.units[at->first.second], 100 * at->second);
    }
    text += fmt::format("# {}:{}{}\n", located.units[unit], line, shown > kMost ? "  ..." : "");
  }
  return text;
}

std::string histogram(const Shares& shares) {
  constexpr int kBins = 12;  // of a tenth; the last holds everything above
  constexpr double kWidth = 60;
  std::vector<std::size_t> counts(kBins);
  for (const auto& [pair, share] : shares) ++counts[std::clamp(static_cast<int>(std::floor(10 * share)), 0, kBins - 1)];
  const auto most = static_cast<double>(*std::ranges::max_element(counts));
  std::string text;
  for (int bin = 0; bin < kBins; ++bin) {
    if (counts[bin] == 0) continue;
    const auto length = static_cast<std::size_t>(std::ceil(kWidth * static_cast<double>(counts[bin]) / most));
    const std::string range = bin + 1 == kBins ? fmt::format("{:>3} %  up  ", 10 * bin)
                                               : fmt::format("{:>3}-{:>3} %  ", 10 * bin, 10 * (bin + 1));
    text += fmt::format("# {}{:>9}  {}\n", range, counts[bin], std::string(length, '#'));
  }
  return text;
}

std::string one_matrix(const AcceptResult::Located& located, bool one_way) {
  std::vector<PairCell> cells = located.matrix;
  std::erase_if(cells, [&](const PairCell& cell) { return cell.one_way != one_way || !(cell.bandwidth > 0); });
  if (cells.empty()) return "";
  const bool as_judged = !one_way && located.finding.median_bandwidth > 0;
  const double of = as_judged ? located.finding.median_bandwidth : median(mapped(cells, &PairCell::bandwidth));
  Shares shares;
  for (const PairCell& cell : cells) {
    shares[{cell.a, cell.b}] = cell.bandwidth / of;
    if (!one_way) shares[{cell.b, cell.a}] = cell.bandwidth / of;
  }
  std::string text = fmt::format("#\n# {}, in % of the median of {}",
                                 one_way ? "one way, the row sends" : "pairs, the slower way", bandwidth_text(of));
  if (located.units.size() <= kNumbersUpTo)
    return text + " (# below 80, * below 90, . not measured)\n" + numbers(shares, located.units);
  if (located.units.size() <= kMapUpTo) {
    return text + " (. 90 and more, else the tens; space: not measured)\n" +
           rows_text(shares, located.units, "  ", [](std::optional<double> share, bool is_own) -> std::string {
             if (!share) return is_own ? "\\ " : "  ";
             return *share >= 0.9 ? ". " : fmt::format("{} ", std::floor(10 * *share));
           });
  }
  return text + fmt::format("; the suspects with their partners, then how many {} pairs\n", name(located.unit)) +
         suspect_rows(shares, located) + histogram(shares);
}

Json culprit_json(const Culprit& c, const std::vector<std::string>& names) {
  Json json = fields_json(c);
  json.update({{"units", unit_names(c, names)},
               {"text", describe(c, names)},
               {"looks", c.looks},
               {"looks_slow", c.looks_slow}});
  if (c.rail < 0) json["rail"] = nullptr;
  for (const char* not_tried : {"alone_ratio", "over_time"}) {
    if (json[not_tried] == 0) json[not_tried] = nullptr;
  }
  return json;
}

Json slow_rank_json(const SlowRank& slow) {
  Json json;
  BUSBAR_FIELDS(members_of(json), slow, rank, host, outcome);
  json["text"] = describe(slow);
  BUSBAR_FIELDS(members_of(json), slow, probe, ratio, looks, looks_slow);
  if (slow.iterations == 0) {
    json.update({{"slow_sets", slow.slow_sets}, {"sets", kSoloSets}});
    return json;
  }
  BUSBAR_FIELDS(members_of(json), slow, times_last, iterations);
  json.update({{"late_s", json_seconds(slow.late_s)}, {"confirmed", slow.confirmed}});
  return json;
}

Json round_json(const MeasuredRound& m) {
  Json groups = Json::array();
  for (std::size_t g = 0; g < m.measured.size(); ++g) {
    Json group{{"units", m.round.groups[g]}};
    group.update(fields_json(m.measured[g]));
    groups.push_back(std::move(group));
  }
  return {{"kind", name(m.round.kind)},
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

Json verdict_json(const LocateRun& run) {
  const LocateVerdict& f = run.located.finding;
  const auto of_culprit = [&](const Culprit& c) { return culprit_json(c, run.located.units); };
  const auto of_counter = [](const DoctorRow& row) {
    Json json;
    BUSBAR_FIELDS(members_of(json), row, check, subject, outcome, value);
    json["reason"] = json_text_or_null(row.reason);
    return json;
  };
  Json json{{"outcome", name(run.outcome)},
            {"headline", headline(f, run.located.units)},
            {"pairs_outcome", name(f.outcome)},
            {"reason", json_text_or_null(f.reason)},
            {"culprits", json_list(f.culprits, of_culprit)},
            {"ranks",
             {{"outcome", name(run.ranks.outcome)},
              {"slow", json_list(run.ranks.slow, slow_rank_json)},
              {"skipped", run.ranks.skipped}}},
            {"counters", json_list(run.counters, of_counter)}};
  BUSBAR_FIELDS(members_of(json), f, noise, threshold, median_bandwidth, slow_share, expected_false, rounds);
  json.update({{"time_s", json_number(run.time_s)},
               {"message_bytes", run.shape.nbytes},
               {"repetitions", run.shape.repetitions},
               {"links", run.links},
               {"matrix", matrix_json(run.located.matrix, false)},
               {"matrix_one_way", matrix_json(run.located.matrix, true)},
               {"measured_rounds", json_list(run.rounds, round_json)},
               {"measured_rounds_left_out", run.rounds_left_out}});
  return json;
}

}  // namespace

std::string bandwidth_text(double bytes_per_s) {
  constexpr std::array kUnits = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  std::size_t unit = 0;
  while (bytes_per_s >= 1000 && unit + 1 < kUnits.size()) {
    bytes_per_s /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g} {}", bytes_per_s, kUnits[unit]);
}

std::string locate_text(const LocateRun& run) {
  const LocateVerdict& verdict = run.located.finding;
  const auto decides = [&](const DoctorRow& row) { return worse(row.outcome, verdict.outcome) != verdict.outcome; };
  const bool counters_first = std::ranges::any_of(run.counters, decides);
  std::string text = counters_first ? counters_text(run) : "";
  text += headline(verdict, run.located.units) + "\n";
  for (std::size_t i = 1; i < verdict.culprits.size(); ++i) {
    text +=
        fmt::format("{}: {}\n", name(verdict.culprits[i].outcome), describe(verdict.culprits[i], run.located.units));
  }
  const SlowRankVerdict& ranks = run.ranks;
  for (const SlowRank& slow : ranks.slow) text += fmt::format("{}: {}\n", name(slow.outcome), describe(slow));
  if (ranks.slow.empty() && ranks.outcome == Outcome::pass) text += "# no rank is slow by itself or comes late\n";
  for (const std::string& reason : ranks.skipped) text += fmt::format("# not judged: {}\n", reason);
  if (!counters_first) text += counters_text(run);
  return text + suspects_table(run.located) + matrix_text(run.located) + "#\n" + measured_text(run);
}

std::string matrix_text(const AcceptResult::Located& located) {
  return one_matrix(located, false) + one_matrix(located, true);
}

std::string locate_json(const RunInfo& info, const LocateRun& run, std::optional<ExitCode> code) {
  Json json = job_document("locate", info);
  json.update({{"search", fields_json(run.options.search)}});
  if (code) {
    json["unit"] = name(run.located.unit);
    json["units"] = run.located.units;
    json["locate"] = verdict_json(run);
  }
  json["exit_code"] = code ? Json(static_cast<int>(*code)) : Json(nullptr);
  return dump_document(json);
}

}  // namespace busbar
