#pragma once

#include "common/record/accept_result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// One run, in the history's form.
struct HistoryRun {
  std::int64_t id = 0;  ///< assigned by the history, rising
  std::string uuid;     ///< of the launch; empty: not known
  std::string time;     ///< of the start, "YYYY-MM-DD HH:MM:SS", local
  std::string kind;     ///< "perf", "compare", "accept", "locate", "doctor"
  std::string title;    ///< the program's or the plan's name
  std::string command;
  std::string version;
  std::string backend;
  std::string library;
  std::string platform;
  std::string estimand;            ///< the meaning of a time; empty: nccl-tests' loop
  std::vector<std::string> hosts;  ///< each once
  int nranks = 0;
  std::vector<std::string> environment;  ///< "NAME=value", as in reports
  Outcome outcome = Outcome::inconclusive;
  int exit_code = 0;
  std::vector<Cell> cells;
  std::vector<CriterionResult> criteria;
};

/// The run of a result of accept, locate or doctor; `tool`: which one.
HistoryRun history_of_accept(const AcceptResult& result, std::string_view tool);

/// Whether it can be a time: finite, above 0, normal and below 30 years. The history keeps no other.
bool is_kept(double time_s);

/// Joins a cell with the same cell of another cycle or repetition: the median over all epochs.
void add_again(Cell& cell, const Cell& again);

/// The outcome of a benchmark's exit code.
Outcome outcome_of_exit(int exit_code);

/// The part of an environment that is equal in all launches with one setting: without the launcher's own variables,
/// which name the job and its directories, and without all that reports leave out.
std::vector<std::string> steady_environment(const std::vector<std::string>& environment);

/// The run in the form that `busbar history add` reads.
std::string history_run_json(const HistoryRun& run);

/// Reads it back. Throws Error(bad_config) naming the file and the problem.
HistoryRun read_history_run_json(std::string_view text, const std::string& name);

}  // namespace busbar
