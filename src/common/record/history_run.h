#pragma once

#include "common/record/accept_result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// One size and placement of a run, as the history keeps it.
struct HistoryCell {
  std::string stage;  ///< of accept; empty: a benchmark
  std::string cell;   ///< its name in accept's plan
  std::string scope;  ///< a host in accept's per-host stage; a variant of compare; else "all"
  std::string collective;
  std::string dtype;
  std::string op;  ///< "none" where nothing is reduced
  int root = -1;   ///< -1: it has none
  std::uint64_t nbytes = 0;
  bool in_place = false;
  std::string algorithm;  ///< empty: not asked
  double median_s = 0;    ///< without --stat the time that the table shows
  std::optional<Interval> interval_s;
  double busbw = 0;                   ///< [1e9 B/s]
  std::optional<std::int64_t> wrong;  ///< nothing: not checked
  std::vector<double> epochs_s;       ///< medians in time order, or the times of the cycles of -N

  /// Equal for the same cell of other runs: what was measured, not what came out.
  std::string key() const;
};

/// One run, as the history keeps it.
struct HistoryRun {
  std::int64_t id = 0;  ///< given by the history, rising
  std::string uuid;     ///< of the launch; empty: not known
  std::string time;     ///< of its start, "YYYY-MM-DD HH:MM:SS", local
  std::string kind;     ///< "perf", "compare", "accept", "locate", "doctor"
  std::string title;    ///< the program's or the plan's name
  std::string command;
  std::string version;
  std::string backend;
  std::string library;
  std::string platform;
  std::string estimand;            ///< what a time is; empty: the loop of nccl-tests
  std::vector<std::string> hosts;  ///< each once
  int nranks = 0;
  std::vector<std::string> environment;  ///< "NAME=value", as reports show it
  Outcome outcome = Outcome::inconclusive;
  int exit_code = 0;
  std::vector<HistoryCell> cells;
  std::vector<CriterionResult> criteria;
};

/// A result of accept, locate or doctor; `tool`: which.
HistoryRun history_of_accept(const AcceptResult& result, std::string_view tool);

/// Whether it is a time to be kept: finite, above 0 and normal.
bool is_kept(double time_s);

/// Joins a cell to the same one of an earlier cycle or repetition: the median over all.
void add_again(HistoryCell& cell, const HistoryCell& again);

/// What the exit code makes of a benchmark.
Outcome outcome_of_exit(int exit_code);

/// Of an environment what is the same from launch to launch of one setting: the launcher's own variables, which name
/// the job and its directories, are left out, and so is all that reports do not show.
std::vector<std::string> steady_environment(const std::vector<std::string>& environment);

/// The run as `busbar history add` takes it.
std::string history_run_json(const HistoryRun& run);

/// Reads it back. Throws Error(bad_config) naming the file and what is wrong in it.
HistoryRun read_history_run_json(std::string_view text, const std::string& name);

}  // namespace busbar
