#include "driver/history/history_setup.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/statistics/trend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace busbar {
namespace {

/// Variables of `a` that `b` does not have alike.
std::vector<std::string> without(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::string> only;
  for (const std::string& variable : a) {
    if (!contains(b, variable)) only.push_back(printable(variable));
  }
  return only;
}

bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

[[noreturn]] void no_run(std::span<const HistoryRun> runs, std::string_view word) {
  const std::string known = runs.empty() ? "there are none"
                                         : fmt::format("there are {} from {} to {}", runs.size(),
                                                       run_words(runs.front()), run_words(runs.back()));
  throw_bad_config(
      fmt::format("no run {}: name one by its number, a date as in 2026-07-04, last or "
                  "last-1; {}",
                  in_quotes(word), known));
}

}  // namespace

std::string run_words(const HistoryRun& run) { return fmt::format("run {} ({})", run.id, printable(run.time)); }

std::string measured_alike(const HistoryRun& run) {
  std::string text = printable(run.backend);
  if (!run.platform.empty()) text += ", " + printable(run.platform);
  text += fmt::format(", {} on {}", counted(std::max(run.nranks, 0), "rank"), counted(run.hosts.size(), "host"));
  if (run.kind != "perf") text += ", " + printable(run.kind);
  // accept says itself how it samples.
  return run.kind == "perf" || run.kind == "compare"
             ? fmt::format("{}, {}", text, run.estimand.empty() ? "loop without --stat" : printable(run.estimand))
             : text;
}

std::vector<std::size_t> burst_numbers(std::span<const std::optional<std::int64_t>> times) {
  constexpr double kHour = 3600;  // a machine's state with a correlation time of ten minutes is forgotten
  std::vector<double> times_s;
  for (const auto& time : times) {
    if (time) times_s.push_back(static_cast<double>(*time));
  }
  if (times_s.size() == times.size()) return bursts(times_s, kHour);
  std::vector<std::size_t> each(times.size());
  std::iota(each.begin(), each.end(), std::size_t{0});
  return each;
}

std::string setup(const HistoryRun& run) { return fmt::format("{}, {}", measured_alike(run), printable(run.library)); }

std::vector<std::string> differences(const HistoryRun& a, const HistoryRun& b) {
  std::vector<std::string> found;
  const auto differ = [&](std::string_view what, const std::string& before, const std::string& after) {
    if (before != after) found.push_back(fmt::format("{}: {}, then {}", what, in_quotes(before), in_quotes(after)));
  };
  differ("library", a.library, b.library);
  differ("busbar", a.version, b.version);
  const auto hosts = [](const HistoryRun& run) {
    std::vector<std::string> names = run.hosts;
    std::ranges::sort(names);
    return joined_words(names, " ");
  };
  differ("hosts", hosts(a), hosts(b));
  const auto variables = [&](std::string_view when, const std::vector<std::string>& only) {
    if (!only.empty()) found.push_back(fmt::format("variables {}: {}", when, fmt::join(only, " ")));
  };
  variables("before", without(a.environment, b.environment));
  variables("then", without(b.environment, a.environment));
  return found;
}

const HistoryRun& find_run(std::span<const HistoryRun> runs, std::string_view word) {
  if (word.starts_with("last")) {
    const auto back = word.size() == 4 ? std::optional<std::size_t>(0)
                      : word[4] == '-' ? number_of<std::size_t>(word.substr(5))
                                       : std::nullopt;
    if (!back || *back >= runs.size()) no_run(runs, word);
    return runs[runs.size() - 1 - *back];
  }
  // A year alone would be taken for a number, which is what most words of digits are.
  const auto is_it = [&](const HistoryRun& run) {
    return all_digits(word) ? std::to_string(run.id) == word
                            : word.find('-') != std::string_view::npos && run.time.starts_with(word);
  };
  const auto found = std::find_if(runs.rbegin(), runs.rend(), is_it);
  if (found == runs.rend()) no_run(runs, word);
  return *found;
}

}  // namespace busbar
