#include "common/base/compress_list.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/record/accept_fields.h"
#include "common/record/culprit.h"
#include "common/record/history_run.h"
#include "common/record/json_fields.h"
#include "common/record/json_values.h"
#include "common/statistics/paired.h"
#include "driver/launch/launching.h"
#include "driver/report/report_html.h"
#include "driver/report/report_parts.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>

namespace busbar {
namespace {

constexpr std::size_t kMostColumns = 24;

/// "first_median_s" without its unit, as people write it.
std::string title_of(std::string_view key) {
  if (key.ends_with("_s")) key.remove_suffix(2);
  std::string text(key);
  for (char& c : text) c = c == '_' || c == '-' ? ' ' : c;
  return text;
}

/// A value of a table's cell, whose unit its key names; empty for what has no place in a cell.
std::string cell_words(std::string_view key, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number()) {
    const double number = value.get<double>();
    if (key.ends_with("_s")) return time_words(number);
    if (key.ends_with("bytes") && number >= 0 && number < 1e18) return format_bytes(static_cast<std::uint64_t>(number));
    return value.is_number_integer() ? value.dump() : three_digits(number);
  }
  if (value.is_object() && value.contains("low") && value.contains("high")) {
    return fmt::format("{} to {}", cell_words(key, value["low"]), cell_words(key, value["high"]));
  }
  const bool is_list =
      value.is_array() && std::ranges::all_of(value, [](const Json& item) { return item.is_string(); });
  return is_list ? joined_words(value.get<std::vector<std::string>>(), ", ") : "";
}

constexpr int kMostRanks = std::numeric_limits<int>::max();

int nranks_of(const JsonPlace& file) { return static_cast<int>(file.at("nranks").whole(1, kMostRanks)); }

/// Lines in the order of their first points.
struct LineBook {
  std::vector<ReportSeries> lines;
  std::map<std::array<std::string, 3>, std::size_t> index;

  /// The line for cells like this one; a new one if there is none.
  ReportSeries& like(const ReportSeries& series) {
    const auto [known, is_new] = index.try_emplace({series.type, series.placement, series.variant}, lines.size());
    return is_new ? lines.emplace_back(series) : lines[known->second];
  }
};

/// Returns at how many sizes a setting beats the library's own choice.
std::size_t add_comparison(ReportData& data, const JsonPlace& c, const std::string& source) {
  if (!c.holds("dtype")) return 0;  // nothing could be compared
  std::size_t beaten = 0;
  ReportSeries common;
  common.source = source;
  common.collective = c.at("collective").text();
  common.type = type_words(c.at("dtype").text(), c.at("op").text());
  common.placement = placement_words(c.at("in_place").truth());
  common.scope = ranks_words(nranks_of(c), static_cast<std::size_t>(c.at("nnodes").whole(1, kMostRanks)));
  LineBook book;
  c.at("sizes").each([&](const JsonPlace& size) {
    const auto nbytes = static_cast<std::uint64_t>(size.at("nbytes").whole(0));
    size.at("variants").each([&](const JsonPlace& cell) {
      const std::string label = cell.at("variant").text();
      ReportSeries series = common;
      series.variant = label;
      ReportPoint p;
      p.nbytes = nbytes;
      p.wrong = cell.at("wrong").whole(0);
      if (cell.holds("median_s")) p.time_s = cell.at("median_s").seconds();
      if (cell.holds("ratio")) {
        p.ratio = cell.at("ratio").at("value").number();
        if (label != "default") p.ratio_interval = cell.at("ratio").interval_s();
      }
      if (cell.holds("difference")) {
        // "slower than default"; for the default itself, and if nobody knows, the bare word.
        p.note = cell.at("difference").text();
        const auto difference = from_word<Difference>(p.note);
        if (!difference)
          cell.at("difference").fail(fmt::format("is none of {}", fmt::join(words_of(Difference{}), ", ")));
        if (label != "default" && difference != Difference::undecided) p.note += " than default";
      }
      if (p.time_s || *p.wrong > 0) book.like(series).points.push_back(p);
    });
    beaten += size.holds("winner") && size.at("winner").text() != "default" ? 1 : 0;
  });
  for (ReportSeries& line : book.lines) add_busbw(line, nranks_of(c));
  data.series.insert(data.series.end(), book.lines.begin(), book.lines.end());
  Json fastest = Json::array();
  for (const Json& size : c.at("sizes").json()) {
    Json& row = fastest.emplace_back();
    for (const char* key :
         {"nbytes", "winner", "fastest_by_estimate", "not_slower_than_the_fastest", "regret", "verdict"}) {
      row[key] = size.value(key, Json());
    }
    if (row["winner"].is_null()) row["winner"] = "none";
  }
  data.judged.push_back(table_of(titled(source, "Fastest settings of " + common.collective), fastest));
  data.judged.back().caption = "Winner: confidently faster than the default, and no other setting beats it.";
  return beaten;
}

Outcome outcome_of(const JsonPlace& value) {
  if (const auto outcome = from_word<Outcome>(value.text())) return *outcome;
  value.fail("is none of PASS, WARN, FAIL, INCONCLUSIVE, SKIP");
}

constexpr std::size_t kMostWrongTexts = 20;

void add_lines(ReportData& data, const RunFile& run, const std::string& source) {
  LineBook book;
  for (const Cell& cell : run.cells) {
    ReportSeries series = series_of(cell, source);
    series.scope = ranks_words(run.nranks, run.hosts.size());
    if (cell.root >= 0) series.variant = fmt::format("root {}", cell.root);
    std::string note = cell.algorithm;
    if (!cell.protocol.empty()) note += "/" + cell.protocol;
    if (!cell.note.empty()) note += (note.empty() ? "" : ", ") + cell.note;
    book.like(series).points.push_back(point_of(cell, note));
  }
  for (ReportSeries& line : book.lines) join_repeated(line);
  data.series.insert(data.series.end(), book.lines.begin(), book.lines.end());
}

/// "node1: 0 [core 3], 1-3 [unbound]": which rank sits where, a line per host; ranks that follow each other together.
std::vector<std::string> placement_lines(const std::vector<RunDevice>& devices) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < devices.size();) {
    const RunDevice& first = devices[i];
    const auto alike = [&](const RunDevice& d, std::size_t after) {
      return d.host == first.host && d.place == first.place &&
             d.rank - std::int64_t{first.rank} == static_cast<std::int64_t>(after);
    };
    std::size_t count = 1;
    while (i + count < devices.size() && alike(devices[i + count], count)) ++count;
    std::string text = fmt::format("{}", first.rank);
    if (count > 1) text += fmt::format("-{}", devices[i + count - 1].rank);
    if (!first.place.empty()) text += fmt::format(" [{}]", first.place);
    if (i > 0 && devices[i - 1].host == first.host)
      lines.back() += ", " + text;
    else
      lines.push_back(first.host + ": " + text);
    i += count;
  }
  return lines;
}

ReportRun how(const RunFile& run) {
  ReportRun how;
  how.title = run.name;
  add_fact(how, "command", join_for_shell(run.args));
  add_fact(how, "busbar", run.version);
  add_fact(how, "backend", run.backend);
  add_fact(how, "library", run.library);
  add_fact(how, "start", run.start_time);
  add_fact(how, "end", run.end_time.empty() ? "it did not end" : run.end_time);
  if (run.exit_code) add_fact(how, "exit code", fmt::format("{}", *run.exit_code));
  add_fact(how, "ranks", ranks_words(run.nranks, run.hosts.size()));
  add_fact(how, "hosts", compress_hosts(run.hosts));
  std::vector<std::string> hosts, devices;
  for (const RunDevice& device : run.devices) {
    hosts.push_back(device.host);
    devices.push_back(device.name);
  }
  add_fact(how, "devices", device_words(hosts, devices));
  add_fact(how, "ranks' places", placement_lines(run.devices));
  if (run.stat) add_fact(how, "sampling", fmt::format("cadence {}, sample: {}", run.cadence, run.estimand));
  add_fact(how, "disturbance", run.flags);
  add_fact(how, "remarks", run.remarks);
  std::vector<std::string> skipped;
  for (const SkippedCell& skip : run.skipped) skipped.push_back(type_words(skip.dtype, skip.op) + ": " + skip.reason);
  add_fact(how, "skipped", skipped);
  add_fact(how, "environment", run.environment);
  return how;
}

void add_say(ReportData& data, const RunFile& run, const std::string& source) {
  const std::size_t measured = run.cells.size();
  std::size_t wrong = 0, unchecked = 0, loose = 0;
  for (const Cell& cell : run.cells) {
    wrong += cell.wrong.value_or(0) > 0 ? 1 : 0;
    unchecked += cell.wrong ? 0 : 1;
    loose += cell.stop != StopReason::ci ? 1 : 0;
  }
  std::string headline =
      fmt::format("{} of {}: {} cells measured", run.collective, ranks_words(run.nranks, run.hosts.size()), measured);
  if (wrong > 0)
    headline += fmt::format(", WRONG DATA in {}", wrong);
  else if (unchecked == measured)
    headline += ", data not checked";
  else
    headline += ", no wrong data";
  std::vector<std::string> lines;
  if (run.end_time.empty()) lines.push_back("the run did not end: what is here is all that there is");
  if (loose > 0)
    lines.push_back(fmt::format("{} of {} cells stopped before their interval was tight", loose, measured));
  for (const std::string& flag : run.flags) lines.push_back("disturbed while measured: " + flag);
  if (!run.flags.empty()) data.disturbed.insert(source);
  if (!run.end_time.empty()) lines.insert(lines.end(), run.errors.begin(), run.errors.end());
  add_verdict(data, wrong > 0 ? std::optional(Outcome::fail) : std::nullopt, headline, lines, source);
  if (run.wrong_texts.empty()) return;
  ReportTable table{.title = titled(source, "Wrong data"),
                    .caption = fmt::format("{} reports of ranks.", run.wrong_texts.size()),
                    .columns = {"who held what"}};
  for (std::size_t i = 0; i < std::min(run.wrong_texts.size(), kMostWrongTexts); ++i) {
    table.rows.push_back({Outcome::fail, {run.wrong_texts[i]}});
  }
  data.judged.push_back(std::move(table));
}

constexpr std::array<std::string_view, 4> kOfRun{"command", "where", "remarks", "environment"};

/// A cell's busbw and time over the days.
void add_trend(ReportData& data, const JsonPlace& trend, const std::string& source) {
  const auto cell = record_at<CellIdentity>(trend);
  ReportSeries series = series_of(cell, source);
  series.over_days = true;
  series.scope = format_bytes(cell.nbytes);
  series.variant = cell.cell + " " + cell.scope + (trend.holds("setup") ? ", " + trend.at("setup").text() : "");
  trend.at("points").each([&](const JsonPlace& point) {
    const auto began = parse_local_timestamp(point.at("time").text());
    if (!began || *began < 0) return;
    ReportPoint p;
    p.nbytes = static_cast<std::uint64_t>(*began);
    if (point.holds("median_s")) p.time_s = point.at("median_s").seconds();
    if (point.at("busbw").number_or(0) > 0) p.busbw = point.at("busbw").number();
    p.note = fmt::format("{}, run {}", point.at("time").text(), point.at("run").whole(0));
    series.points.push_back(p);
  });
  std::ranges::stable_sort(series.points, {}, &ReportPoint::nbytes);
  if (series.points.size() > 1) data.series.push_back(std::move(series));
}

}  // namespace

ReportTable table_of(const std::string& title, const Json& list) {
  ReportTable table{.title = title, .columns = {}};
  for (const Json& item : list) {
    for (const auto& [key, value] : item.items()) {
      if (table.columns.size() == kMostColumns) break;
      if (key != "outcome" && !cell_words(key, value).empty()) add_once(table.columns, key);
    }
  }
  for (const Json& item : list) {
    ReportTable::Row row{from_word<Outcome>(cell_words("", item.value("outcome", Json()))), {}};
    for (const std::string& key : table.columns) row.cells.push_back(cell_words(key, item.value(key, Json())));
    table.rows.push_back(std::move(row));
  }
  for (std::string& column : table.columns) column = title_of(column);
  return table;
}

ReportRun run_of_document(const JsonPlace& file, const std::string& name) {
  ReportRun run;
  run.title = name;
  const auto text = [&](const char* key) { return file.holds(key) ? file.at(key).text() : std::string(); };
  const auto texts = [&](const char* key) {
    return file.holds(key) ? file.at(key).texts() : std::vector<std::string>();
  };
  add_fact(run, "command", join_for_shell(texts("command")));
  add_fact(run, "busbar", text("version"));
  add_fact(run, "backend", text("backend"));
  add_fact(run, "library", text("library"));
  add_fact(run, "start", text("time"));
  if (file.holds("nranks")) add_fact(run, "ranks", fmt::format("{}", nranks_of(file)));
  add_fact(run, "hosts", compress_hosts(texts("where")));
  add_fact(run, "remarks", texts("remarks"));
  if (file.has("exit_code")) {
    add_fact(run, "exit code",
             file.holds("exit_code") ? fmt::format("{}", file.at("exit_code").whole(0, 255)) : "it did not end");
  }
  add_fact(run, "environment", texts("environment"));
  return run;
}

void add_run(ReportData& data, const RunFile& run, const std::string& source) {
  if (data.title.empty()) data.title = fmt::format("{}, {}", run.collective, run.library);
  add_say(data, run, source);
  add_lines(data, run, source);
  for (const Cell& cell : run.cells) {
    if (!cell.ranks.empty()) data.skews.push_back(skew_of(cell, cell.collective, source));
  }
  data.runs.push_back(how(run));
}

void add_comparisons(ReportData& data, const JsonPlace& file, const std::string& name, const std::string& source) {
  if (data.title.empty()) data.title = "Comparison of settings, " + file.at("library").text();
  std::int64_t wrong = 0, compared = 0;
  std::size_t beaten = 0, sizes = 0;
  file.at("comparisons").each([&](const JsonPlace& c) {
    beaten += add_comparison(data, c, source);
    c.at("sizes").each([&](const JsonPlace&) { ++sizes; });
    wrong += c.at("cells").at("wrong").whole(0);
    compared += c.at("cells").at("compared").whole(0);
  });
  const std::string headline =
      wrong > 0 ? fmt::format("WRONG DATA in {} of {} compared cells", wrong, compared)
                : fmt::format("the library's own choice is confidently beaten at {} of {} sizes", beaten, sizes);
  add_verdict(data, wrong > 0 ? std::optional(Outcome::fail) : std::nullopt, headline, {}, source);
  data.runs.push_back(run_of_document(file, name));
}

void add_merged(ReportData& data, const JsonPlace& file, const std::string& name, const std::string& source) {
  const std::string collective = file.at("collective").text();
  std::vector<std::string> launches;
  file.at("launches").each([&](const JsonPlace& launch) {
    const std::string start = launch.holds("start_time") ? launch.at("start_time").text() : "";
    launches.push_back(launch.holds("file") ? launch.at("file").text() + (start.empty() ? "" : ", " + start) : start);
  });
  LineBook book;
  std::int64_t wrong = 0;
  file.at("cells").each([&](const JsonPlace& json) {
    const auto cell = record_at<CellIdentity>(json);
    ReportSeries series = series_of(cell, source);
    series.collective = collective;
    series.scope = fmt::format("{} ranks, {} launches", nranks_of(file), launches.size());
    if (cell.root >= 0) series.variant = fmt::format("root {}", cell.root);
    ReportPoint p;
    p.nbytes = cell.nbytes;
    p.wrong = json.at("wrong").whole(0);
    wrong += *p.wrong;
    const char* const time = json.has("time_s") ? "time_s" : "median_s";  // repeat: the launches' mean
    if (json.holds(time)) p.time_s = json.at(time).seconds();
    if (json.holds("interval_s") && json.at("interval_s").at("low").number() > 0)  // two launches' may begin at 0
      p.time_interval_s = json.at("interval_s").interval_s();
    book.like(series).points.push_back(p);
  });
  if (data.title.empty()) data.title = fmt::format("{}, {} launches", collective, launches.size());
  add_verdict(
      data, wrong > 0 ? std::optional(Outcome::fail) : std::nullopt,
      fmt::format("{} of {} launches: {}", collective, launches.size(), wrong > 0 ? "WRONG DATA" : "no wrong data"),
      file.at("warnings").texts(), source);
  for (ReportSeries& line : book.lines) {
    join_repeated(line);
    add_busbw(line, nranks_of(file));
  }
  data.series.insert(data.series.end(), book.lines.begin(), book.lines.end());
  data.runs.push_back(run_of_document(file, name));
  add_fact(data.runs.back(), "launches", launches);
}

void add_locate(ReportData& data, const JsonPlace& file, const std::string& name, const std::string& source) {
  data.runs.push_back(run_of_document(file, name));
  if (!file.holds("locate")) {
    add_verdict(data, Outcome::inconclusive, "the search for slow units did not end", {}, source);
    return;
  }
  const JsonPlace found = file.at("locate");
  ReportMatrix matrix;
  matrix.unit = file.at("unit").text();
  matrix.units = file.at("units").texts();
  matrix.title = titled(source, fmt::format("Pairs of {}s", matrix.unit));
  matrix.threshold = found.holds("threshold") ? found.at("threshold").number() : 0;
  matrix.median_bandwidth = found.holds("median_bandwidth") ? found.at("median_bandwidth").number() : 0;
  ReportTable table{.title = titled(source, "Who is slow"), .columns = {"who", "why"}};
  std::vector<std::string> lines;
  const auto add_row = [&](Outcome outcome, const std::string& who, const std::string& why) {
    table.rows.push_back({outcome, {who, why}});
    lines.push_back(why);
  };
  found.at("culprits").each([&](const JsonPlace& culprit) {
    std::string who;
    for (const std::string& unit : culprit.at("units").texts()) {
      who += (who.empty() ? "" : ", ") + unit;
      const auto at = std::find(matrix.units.begin(), matrix.units.end(), unit);
      if (at != matrix.units.end()) matrix.blamed.push_back(static_cast<int>(at - matrix.units.begin()));
    }
    add_row(outcome_of(culprit.at("outcome")), who, culprit.at("text").text());
  });
  found.at("ranks").at("slow").each([&](const JsonPlace& slow) {
    add_row(outcome_of(slow.at("outcome")),
            fmt::format("rank {} on {}", slow.at("rank").whole(0, kMostRanks), slow.at("host").text()),
            slow.at("text").text());
  });
  table.caption =
      fmt::format("{}{} rounds.", table.rows.empty() ? "No unit can be named: " : "", found.at("rounds").whole(0));
  for (const bool one_way : {false, true}) {
    found.at(one_way ? "matrix_one_way" : "matrix").each([&](const JsonPlace& cell) {
      std::vector<double> n;
      cell.each([&](const JsonPlace& value) { n.push_back(value.is_null() ? 0 : value.number()); });
      const auto last = static_cast<double>(matrix.units.size()) - 1;
      if (n.size() != 4 || std::min(n[0], n[1]) < 0 || std::max(n[0], n[1]) > last || n[3] < 0 || n[3] > 1e9)
        cell.fail("is not a [unit, unit, bandwidth, measurements]");
      matrix.cells.push_back({static_cast<int>(n[0]), static_cast<int>(n[1]), n[2], static_cast<int>(n[3]), one_way});
    });
  }
  if (data.title.empty()) data.title = fmt::format("Search for slow {}s among {}", matrix.unit, matrix.units.size());
  const Outcome outcome = outcome_of(found.at("outcome"));
  const std::string headline = found.at("headline").text();
  add_verdict(data, outcome, std::string(without_outcome(headline, outcome)), lines, source);
  if (outcome == Outcome::fail && matrix.unit == "host" && !table.rows.empty()) {
    data.next.push_back(titled(source, fmt::format("run busbar doctor --local on {0}, then run again without {0}",
                                                   table.rows.front().cells.front())));
  }
  data.judged.push_back(std::move(table));
  add_matrices(data, std::move(matrix));
}

void add_document(ReportData& data, const JsonPlace& file, const std::string& name, const std::string& source) {
  const std::string what = title_of(file.at("document").text());
  const std::string verdict = file.holds("verdict") ? file.at("verdict").text() : "";  // diagnose's
  std::string headline = file.holds("sentence") ? verdict + ": " + file.at("sentence").text() : "busbar " + what;
  std::vector<std::string> evidence;
  ReportRun run = run_of_document(file, name);
  file.each_member([&](const std::string& key, const JsonPlace& value) {
    const Json& list = value.json();
    if (!list.is_array() || list.empty()) return;
    if (std::ranges::all_of(list, [](const Json& item) { return item.is_object(); })) {
      (key == "trends" ? data.details : data.judged).push_back(table_of(titled(source, title_of(key)), list));
      headline += fmt::format("; {}: {}", title_of(key), list.size());
    } else if (list.front().is_string() && !contains(kOfRun, key)) {
      const std::vector<std::string> texts = value.texts();
      if (key == "next") data.next.insert(data.next.end(), texts.begin(), texts.end());
      if (key == "evidence") evidence = texts;
      add_fact(run, title_of(key), texts);
    }
    if (key == "trends") value.each([&](const JsonPlace& trend) { add_trend(data, trend, source); });
  });
  if (data.title.empty()) data.title = what;
  std::optional<Outcome> outcome;
  if (file.holds("outcome")) outcome = from_word<Outcome>(file.at("outcome").text());
  if (!verdict.empty()) outcome = outcome_of_exit(static_cast<int>(file.at("exit_code").whole(0, 255)));
  if (verdict == "UNKNOWN") outcome = Outcome::inconclusive;
  add_verdict(data, outcome, headline, evidence, source);
  data.runs.push_back(std::move(run));
}

}  // namespace busbar
