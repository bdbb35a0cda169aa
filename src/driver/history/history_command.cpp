#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/options.h"
#include "common/base/read_file.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/output/report_file.h"
#include "common/output/table.h"
#include "driver/command/subcommand.h"
#include "driver/history/history.h"
#include "driver/history/history_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <span>

namespace busbar {
namespace {

constexpr std::string_view kDocumentKinds = "perf compare accept locate doctor";

struct HistoryOptions {
  std::vector<std::string> words;
  std::string file;
  std::string kind;
  std::size_t last = 0;  // 0: all
  double delta = 0.05;
  int days = 30;
  std::string output_file;
  Config cells;                 // which of them
  std::set<std::string> asked;  // options of `cells` that were given
};

std::vector<OwnOption> own_options(HistoryOptions& options) {
  return {
      {"history", "FILE", "the SQLite file that --history of the benchmarks and of busbar wrote", into(options.file)},
      {"kind", "KIND", "only runs of this kind: perf compare accept locate doctor",
       [&](std::string_view text) {
         if (!contains(split_list(kDocumentKinds, ' '), text)) {
           throw_bad_config(fmt::format("{} is not a kind; choose from: {}", in_quotes(text), kDocumentKinds));
         }
         options.kind = text;
       }},
      {"last", "N", "only the last N runs",
       [&](std::string_view text) { options.last = static_cast<std::size_t>(parse_int(text, 1)); }},
      {"delta", "X%", "compare: slower by no more than this is not a change (default: 5 %)",
       into(options.delta, parse_fraction)},
      {"days", "N", "compare RUN: with the runs of so many days before it (default: 30)",
       [&](std::string_view text) { options.days = parse_int(text, 1, 36500); }}};
}

void read_line(const CommandLine& line, HistoryOptions& options) {
  options.words = line.words;
  static constexpr std::array<std::string_view, 6> kOfCells{"minbytes", "maxbytes", "sizes",
                                                            "datatype", "op",       "placement"};
  for (const Setting& setting : line.settings) {
    const std::string_view name = setting.option->long_name;
    if (name == "output_file") {
      options.output_file = setting.text;
    } else if (contains(kOfCells, name)) {
      setting.option->set(options.cells, setting.text);
      options.asked.emplace(name);
    } else {
      throw_bad_config(fmt::format("--{} has no meaning in history, which measures nothing", name));
    }
  }
}

bool wanted(const HistoryOptions& options, const Cell& cell) {
  const auto asked = [&](const char* name) { return options.asked.contains(name); };
  const auto holds = [](const auto& values, const std::string& text) {
    return std::ranges::any_of(values, [&](auto value) { return text == name(value); });
  };
  const Config& c = options.cells;
  if (asked("minbytes") && cell.nbytes < c.minbytes) return false;
  if (asked("maxbytes") && cell.nbytes > c.maxbytes) return false;
  if (asked("sizes") && !contains(c.sizes, cell.nbytes)) return false;
  if (asked("datatype") && !holds(c.dtypes, cell.dtype)) return false;
  if (asked("op") && !holds(c.ops, cell.op)) return false;
  if (c.placement == Placements::both) return true;
  return cell.in_place == (c.placement == Placements::in);
}

void read_wanted_cells(History& history, std::span<HistoryRun> runs, const HistoryOptions& options,
                       std::string_view collective = {}, const std::function<void(HistoryRun&)>& visit = {}) {
  history.read_cells(runs, collective, [&](HistoryRun& run) {
    std::erase_if(run.cells, [&](const Cell& cell) { return !wanted(options, cell); });
    if (visit) visit(run);
  });
}

std::vector<HistoryRun> chosen_runs(History& history, const HistoryOptions& options) {
  std::vector<HistoryRun> runs = history.runs();
  std::erase_if(runs, [&](const HistoryRun& run) { return !options.kind.empty() && run.kind != options.kind; });
  if (options.last > 0 && runs.size() > options.last)
    runs.erase(runs.begin(), runs.end() - static_cast<std::ptrdiff_t>(options.last));
  return runs;
}

bool speaks_utf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale = value;
    return locale.find("UTF-8") != std::string_view::npos || locale.find("utf8") != std::string_view::npos;
  }
  return false;
}

void write_out(const HistoryOptions& options, const std::string& text, const std::function<std::string()>& json) {
  if (!options.output_file.empty()) write_new_file(options.output_file, "-J", json());
  if (!write_stdout(text)) throw Error(ExitCode::results_lost, "stdout takes no more output; the table is incomplete");
}

int list(History& history, const HistoryOptions& options) {
  const std::vector<HistoryRun> runs = chosen_runs(history, options);
  write_out(options, list_text(runs), [&] { return runs_json(runs); });
  return 0;
}

int show(History& history, const HistoryOptions& options) {
  if (options.words.size() != 2) throw_bad_config("history show needs one RUN");
  const std::vector<HistoryRun> runs = chosen_runs(history, options);
  HistoryRun run = find_run(runs, options.words[1]);
  read_wanted_cells(history, {&run, 1}, options);
  history.read_criteria(run);
  write_out(options, show_text(run), [&] { return runs_json({&run, 1}); });
  return 0;
}

/// "all_reduce 1 KiB to 4 KiB, broadcast 8 B to 1 MiB": of all runs, whatever was requested.
std::string what_there_is(History& history, std::vector<HistoryRun> runs) {
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> sizes;
  history.read_cells(runs, {}, [&](HistoryRun& run) {
    for (const Cell& cell : run.cells) {
      const auto [at, is_new] = sizes.try_emplace(cell.collective, cell.nbytes, cell.nbytes);
      at->second = {std::min(at->second.first, cell.nbytes), std::max(at->second.second, cell.nbytes)};
    }
    run.cells = {};
  });
  std::vector<std::string> words;
  for (const auto& [collective, range] : sizes) {
    const std::string first = format_bytes(range.first), last = format_bytes(range.second);
    words.push_back(fmt::format("{} {}{}", printable(collective), first, first == last ? "" : " to " + last));
  }
  return words.empty() ? "none" : joined_words(words, ", ");
}

int trend(History& history, const HistoryOptions& options) {
  if (options.words.size() > 2) throw_bad_config("history trend takes one COLLECTIVE");
  const std::string collective = options.words.size() == 2 ? options.words[1] : "";
  TrendBook book;
  std::vector<HistoryRun> runs = chosen_runs(history, options);
  read_wanted_cells(history, runs, options, collective, [&](HistoryRun& run) {
    book.add(run);
    run.cells.resize(std::min<std::size_t>(run.cells.size(), 1));  // all of all runs are too many to keep
    run.cells.shrink_to_fit();
  });
  const std::vector<CellTrend> all = book.judge();
  if (all.empty()) {
    throw_bad_config(fmt::format("{}: no run has such cells{}; there are: {}", printable(options.file),
                                 collective.empty() ? "" : " of " + in_quotes(collective),
                                 what_there_is(history, runs)));
  }
  write_out(options, trend_text(all, runs, !speaks_utf8()), [&] { return trends_json(all); });
  return 0;
}

/// Runs measured as `after` was in the days before it; those of its library if there are any.
std::vector<HistoryRun> recent_runs(const std::vector<HistoryRun>& runs, const HistoryRun& after, int days) {
  const auto end = parse_local_timestamp(after.time);
  std::vector<HistoryRun> recent;
  for (const HistoryRun& run : runs) {
    const auto time = parse_local_timestamp(run.time);
    if (!end || !time || run.id == after.id || *time > *end || *end - *time > std::int64_t{days} * 86400) continue;
    if (measured_alike(run) == measured_alike(after)) recent.push_back(run);
  }
  const auto other_library = [&](const HistoryRun& run) { return run.library != after.library; };
  if (!std::ranges::all_of(recent, other_library)) std::erase_if(recent, other_library);
  if (!recent.empty()) return recent;
  throw_not_possible(fmt::format("no other run within {} days before {} measured alike ({}): name one, or more --days",
                                 days, run_words(after), measured_alike(after)));
}

int compare(History& history, const HistoryOptions& options) {
  const std::size_t named = options.words.size() - 1;
  if (named < 1 || named > 2)
    throw_bad_config("history compare needs two RUNs, or one to compare with the days before it");
  const std::vector<HistoryRun> runs = chosen_runs(history, options);
  HistoryRun after = find_run(runs, options.words.back());
  std::vector<HistoryRun> before =
      named == 2 ? std::vector{find_run(runs, options.words[1])} : recent_runs(runs, after, options.days);
  const std::string earlier = measured_alike(before.back()), later = measured_alike(after);
  if (earlier != later) {
    throw_not_possible(fmt::format("{} and {} did not measure the same: {}; and {}", run_words(before.back()),
                                   run_words(after), earlier, later));
  }
  if (named == 2 && before.front().id == after.id) throw_bad_config("that is one run, named twice");
  constexpr std::size_t kMostOthers = 100;
  std::vector<HistoryRun> others;
  std::set<std::int64_t> taken{after.id};
  for (const HistoryRun& run : before) taken.insert(run.id);
  for (auto run = runs.rbegin(); run != runs.rend() && others.size() < kMostOthers; ++run) {
    if (taken.contains(run->id)) continue;
    if (measured_alike(*run) == later) others.push_back(*run);
  }
  for (const std::span<HistoryRun> list : {std::span(&after, 1), std::span(before), std::span(others)})
    read_wanted_cells(history, list, options);
  const HistoryComparison comparison = compare_with_history(after, before, others, options.delta);
  if (comparison.cells.empty()) {
    throw_not_possible(fmt::format("{} has no cell that the earlier run has too", run_words(after)));
  }
  write_out(options, compare_text(comparison, after, before, options.delta),
            [&] { return history_comparison_json(comparison, after, before, options.delta); });
  if (comparison.outcome == Outcome::fail) return static_cast<int>(ExitCode::wrong_data);
  return static_cast<int>(comparison.outcome == Outcome::pass ? ExitCode::good : ExitCode::inconclusive);
}

/// For benchmarks, which hold no database themselves: `init` before they measure, `add RUN.json` afterwards.
int write(const std::string& action, const HistoryOptions& options) {
  if (options.words.size() != (action == "add" ? 2 : 1)) {
    throw_bad_config(action == "add" ? "history add needs one file, as a benchmark's --history writes it"
                                     : "history init takes nothing but --history FILE");
  }
  if (action == "init") {
    check_history(options.file);
    return 0;
  }
  const HistoryRun run = read_history_run_json(read_file(options.words[1], "the run"), options.words[1]);
  History(options.file, History::Mode::add).add(run);
  return 0;
}

int history(const HistoryOptions& options) {
  const std::vector<std::string> actions{"list", "show", "trend", "compare", "init", "add"};
  constexpr std::array kReaders{list, show, trend, compare};
  const std::string action = options.words.empty() ? "" : options.words.front();
  const auto at = static_cast<std::size_t>(std::ranges::find(actions, action) - actions.begin());
  if (at == actions.size()) {
    const std::vector<std::string> offered(actions.begin(), actions.begin() + kReaders.size());
    const std::string nearest = nearest_choice(action, offered);
    throw_bad_config(fmt::format("history {}: choose from: {}{}", in_quotes(action), joined_words(offered),
                                 nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
  }
  if (options.file.empty()) throw_bad_config("which history? --history FILE");
  if (at >= kReaders.size()) return write(action, options);
  History file(options.file, History::Mode::read);
  return kReaders[at](file, options);
}

}  // namespace

int run_history(int argc, char** argv) {
  HistoryOptions options;
  return run_alone(argc, argv, "history", own_options(options), [&](const CommandLine& line) {
    read_line(line, options);
    return history(options);
  });
}

}  // namespace busbar
