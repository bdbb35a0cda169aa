#pragma once

#include "common/record/accept_result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

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
  std::vector<Cell> cells;
  std::vector<CriterionResult> criteria;
};

/// A result of accept, locate or doctor; `tool`: which.
HistoryRun history_of_accept(const AcceptResult& result, std::string_view tool);

/// Whether it is a time to be kept: finite, above 0 and normal.
bool is_kept(double time_s);

/// Joins a cell to the same one of an earlier cycle or repetition: the median over all.
void add_again(Cell& cell, const Cell& again);

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
