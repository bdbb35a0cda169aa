#include "driver/report/report_of_run.h"

#include "common/base/compress_list.h"
#include "common/base/units.h"
#include "driver/report/report_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace busbar {
namespace {

constexpr std::size_t kMostWrongTexts = 20;

/// Which algorithm ran, and the row's note.
std::string note_of(const Cell& cell) {
  std::string note = cell.algorithm;
  if (!cell.protocol.empty()) note += "/" + cell.protocol;
  if (!cell.note.empty()) note += (note.empty() ? "" : ", ") + cell.note;
  return note;
}

bool same_line(const ReportSeries& a, const ReportSeries& b) {
  return a.type == b.type && a.placement == b.placement && a.variant == b.variant;
}

void add_lines(ReportData& data, const RunFile& run, const std::string& source) {
  const auto first = static_cast<std::ptrdiff_t>(data.series.size());
  for (const Cell& cell : run.cells) {
    ReportSeries series = series_of(cell, source);
    series.scope = ranks_words(run.nranks, run.hosts.size());
    if (cell.root >= 0) series.variant = fmt::format("root {}", cell.root);
    auto at = std::find_if(data.series.begin() + first, data.series.end(),
                           [&](const ReportSeries& s) { return same_line(s, series); });
    if (at == data.series.end()) at = data.series.insert(data.series.end(), series);
    at->points.push_back(point_of(cell, note_of(cell)));
  }
  for (auto s = data.series.begin() + first; s != data.series.end(); ++s) join_repeated(*s);
}

/// "node1: 0 [core 3], 1-3 [unbound]": which rank sits where, a line per host; ranks that follow each other together.
std::vector<std::string> placement_lines(const std::vector<RunDevice>& devices) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < devices.size();) {
    const RunDevice& first = devices[i];
    const auto alike = [&](const RunDevice& d, std::size_t behind) {
      return d.host == first.host && d.place == first.place &&
             d.rank - std::int64_t{first.rank} == static_cast<std::int64_t>(behind);
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
  add_fact(how, "command", command_words(run.args));
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
  for (const RunSkip& skip : run.skipped) skipped.push_back(type_words(skip.dtype, skip.op) + ": " + skip.reason);
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
  if (!run.end_time.empty()) lines.insert(lines.end(), run.errors.begin(), run.errors.end());
  add_verdict(data, wrong > 0 ? std::optional(Outcome::fail) : std::nullopt, headline, lines, source);
  if (run.wrong_texts.empty()) return;
  ReportTable table;
  table.title = titled(source, "Wrong data");
  table.caption = fmt::format("{} reports of ranks.", run.wrong_texts.size());
  table.columns = {"who held what"};
  for (std::size_t i = 0; i < std::min(run.wrong_texts.size(), kMostWrongTexts); ++i) {
    table.rows.push_back({Outcome::fail, {run.wrong_texts[i]}});
  }
  data.judged.push_back(std::move(table));
}

}  // namespace

void add_run(ReportData& data, const RunFile& run, const std::string& source) {
  if (data.title.empty()) data.title = fmt::format("{}, {}", run.collective, run.library);
  add_say(data, run, source);
  add_lines(data, run, source);
  for (const Cell& cell : run.cells) {
    if (!cell.ranks.empty()) data.skews.push_back(skew_of(cell, cell.collective, source));
  }
  data.runs.push_back(how(run));
}

}  // namespace busbar
