#include "common/record/read_run.h"

#include "common/base/error.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/record/accept_fields.h"
#include "common/record/history_run.h"
#include "common/record/json_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

namespace busbar {
namespace {

constexpr int kMostRanks = std::numeric_limits<int>::max();

/// nccl-tests writes the root as a string; -1: the collective has none.
int root_of(const JsonPlace& value) {
  const std::string text = value.text();
  if (text == "-1") return -1;
  try {
    return parse_int(text, 0);
  } catch (const Error&) {
    value.fail("is not a rank");
  }
}

/// The input is untrusted: statistics take logarithms of times.
void check(const JsonPlace& json, const CellStats& stats) {
  if (!is_kept(stats.median_s)) json.at("median_s").fail("is not a time above 0");
  if (stats.interval_s) json.at("interval_s").interval_s();
  if (stats.epoch_medians_s.empty()) json.at("epoch_medians_s").fail("is empty");
  if (!std::ranges::all_of(stats.epoch_medians_s, is_kept)) json.at("epoch_medians_s").fail("are not times above 0");
  if (stats.samples_per_epoch < 1 || stats.calls_per_sample < 1) json.fail("has epochs without calls");
  if (!(stats.span_s >= 0) || !(stats.correlation_time_s >= 0)) json.fail("has a time below 0");
  for (const RankTime& r : stats.ranks) {
    if (r.rank < 0 || !(r.own_median_s >= 0) || !(r.late_median_s.value_or(0) >= 0))
      json.at("ranks").fail("has a rank or a time below 0");
  }
}

/// Reads --stat's part of a cell; its time and busbw are still those of the table.
void read_stats(const JsonPlace& json, Cell& cell) {
  const auto stats = record_at<CellStats>(json);
  check(json, stats);
  const double bytes = cell.busbw * cell.median_s;  // [1e9 B] times the collective's factor
  set_stats(cell, stats);
  if (bytes > 0) {  // the table's busbw is that of the mean time
    cell.busbw = bytes / cell.median_s;
    if (cell.interval_s) cell.busbw_interval = Interval{bytes / cell.interval_s->high, bytes / cell.interval_s->low};
  }
  if (json.holds("straggler_rank")) cell.straggler = static_cast<int>(json.at("straggler_rank").whole(0, kMostRanks));
}

/// Adds the placement of a row, if it was measured.
void read_cell(const JsonPlace& row, bool in_place, RunFile& run) {
  const char* key = in_place ? "in_place" : "out_of_place";
  const JsonPlace extra = row.at("busbar");
  Cell cell;
  cell.scope = "all";
  cell.collective = run.collective;
  cell.nbytes = static_cast<std::uint64_t>(row.at("size").whole(0));
  cell.count = static_cast<std::uint64_t>(row.at("count").whole(0));
  cell.dtype = row.at("type").text();
  cell.op = row.at("redop").text();
  cell.root = root_of(row.at("root"));
  cell.in_place = in_place;
  const JsonPlace half = extra.at(key);
  if (!half.at("measured").truth()) return;
  if (row.at(key).holds("nwrong")) cell.wrong = row.at(key).at("nwrong").whole(0);
  if (half.holds("time_s")) cell.median_s = half.at("time_s").seconds();
  if (row.at(key).holds("bus_bw")) cell.busbw = std::max(row.at(key).at("bus_bw").number(), 0.0);
  if (extra.holds("note")) cell.note = extra.at("note").text();
  if (run.stat) read_stats(half.at("stats"), cell);
  if (extra.holds("algorithm")) {
    const JsonPlace shown = extra.at("algorithm");
    cell.algorithm = shown.at("algorithm").text();
    cell.protocol = shown.at("protocol").text();
    cell.channels = shown.at("channels").text();
  }
  run.cells.push_back(std::move(cell));
}

void read_sampling(const JsonPlace& stat, RunFile& run) {
  run.stat = true;
  run.cadence = stat.at("cadence").text();
  run.estimand = stat.at("estimand").text();
  if (!stat.holds("disturbance")) return;
  const JsonPlace disturbance = stat.at("disturbance");
  run.flags = disturbance.at("flags").texts();
  if (disturbance.holds("spin_median_s")) run.spin_s = disturbance.at("spin_median_s").seconds();
  if (disturbance.holds("copy_median_s")) run.copy_s = disturbance.at("copy_median_s").seconds();
}

/// A sentence that says which rank held what.
std::string wrong_words(const JsonPlace& wrong) {
  return fmt::format("rank {} on {}: {} bytes, {}: {} elements wrong, first {} got {} want {}: {}",
                     wrong.at("rank").whole(0), wrong.at("host").text(), wrong.at("nbytes").whole(0),
                     wrong.at("buffer").text(), wrong.at("wrong").whole(0), wrong.at("first").whole(0),
                     wrong.at("got").text(), wrong.at("want").text(), wrong.at("explanation").text());
}

void read_devices(const JsonPlace& config, RunFile& run) {
  if (!config.holds("devices")) return;
  config.at("devices").each([&](const JsonPlace& device) {
    run.devices.push_back({static_cast<int>(device.at("rank").whole(0, kMostRanks)), device.at("hostname").text(),
                           device.at("device_info").text(),
                           device.holds("device_hex") ? device.at("device_hex").text() : ""});
  });
}

void read_suite(const JsonPlace& busbar, RunFile& run) {
  run.collective = busbar.at("collective").text();
  run.backend = busbar.at("backend").text();
  run.library = busbar.at("library").text();
  run.launch_uuid = busbar.at("launch_uuid").text();
  if (busbar.holds("buffers")) run.buffers = busbar.at("buffers").at("use").text();
  if (busbar.holds("mpi_threads")) run.mpi_threads = busbar.at("mpi_threads").at("got").text();
  if (busbar.holds("nonblocking") && busbar.at("nonblocking").truth()) run.calls = "nonblocking";
  if (busbar.holds("pingpong")) {
    run.pattern = busbar.at("pingpong").at("pattern").text();
    run.window = busbar.at("pingpong").at("window").whole(1, kMostRanks);
  }
  run.nranks = static_cast<int>(busbar.at("nranks").whole(1, kMostRanks));
  run.hosts = busbar.at("hosts").texts();
  if (busbar.holds("exit_code")) run.exit_code = static_cast<int>(busbar.at("exit_code").whole(0, 255));
  if (busbar.holds("stat")) read_sampling(busbar.at("stat"), run);
  if (busbar.holds("version")) run.version = busbar.at("version").text();
  if (busbar.holds("remarks")) run.remarks = busbar.at("remarks").texts();
  if (busbar.holds("wrong"))
    busbar.at("wrong").each([&](const JsonPlace& wrong) { run.wrong_texts.push_back(wrong_words(wrong)); });
  busbar.at("skipped").each([&](const JsonPlace& skip) {
    SkippedCell& skipped = run.skipped.emplace_back();
    skipped.dtype = skip.at("dtype").text();
    skipped.op = skip.at("op").text();
    skipped.root = static_cast<int>(skip.at("root").whole(-1, kMostRanks));
    skipped.reason = skip.at("reason").text();
  });
}

}  // namespace

RunFile read_run(std::string_view text, const std::string& name) { return run_of(parse_json(text, name), name); }

RunFile run_of(const Json& document, const std::string& name) {
  if (const std::string other = document_of(document, name); !other.empty()) {
    throw_bad_config(
        fmt::format("{}: this is `{}`, not what a benchmark's -J writes{}", name, printable(other), who_reads(other)));
  }
  if (document.contains("busbar") && document["busbar"].is_object()) require_schema(document["busbar"], name);
  RunFile run;
  run.name = name;
  const JsonPlace file(document, "", run.name);
  read_suite(file.at("busbar"), run);
  run.start_time = file.at("start_time").text_or_empty();
  if (file.holds("end_time")) run.end_time = file.at("end_time").text();
  if (file.holds("args")) run.args = file.at("args").texts();
  if (file.holds("env")) run.environment = file.at("env").texts();
  if (file.holds("errors")) run.errors = file.at("errors").texts();
  if (file.holds("config")) read_devices(file.at("config"), run);
  file.at("results").each([&](const JsonPlace& row) {
    for (const bool in_place : {false, true}) read_cell(row, in_place, run);
  });
  return run;
}

std::string difference(const RunFile& one, const RunFile& other) {
  std::string found;
  const auto compare = [&](const char* what, const auto& of_one, const auto& of_other) {
    if (found.empty() && of_one != of_other) found = fmt::format("{} {} and {}", what, of_one, of_other);
  };
  compare("collective", one.collective, other.collective);
  compare("ranks", one.nranks, other.nranks);
  compare("backend", one.backend, other.backend);
  compare("cadence", one.cadence, other.cadence);
  compare("estimand", one.estimand, other.estimand);
  compare("buffers", one.buffers, other.buffers);
  compare("calls", one.calls, other.calls);
  compare("pattern", one.pattern, other.pattern);
  compare("window", one.window, other.window);
  compare("MPI threads", one.mpi_threads, other.mpi_threads);
  return found;
}

const Cell* find_cell(const RunFile& run, const Cell& like) {
  const auto found = std::ranges::find_if(run.cells, [&](const Cell& c) { return same_cell(c, like); });
  return found == run.cells.end() || found->epoch_medians_s.empty() ? nullptr : &*found;
}

}  // namespace busbar
