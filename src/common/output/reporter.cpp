#include "common/output/reporter.h"

#include "common/backends/backend_traits.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/say.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/output/format.h"
#include "common/output/report_file.h"
#include "common/output/table.h"
#include "common/processes/child.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>
#include <utility>

namespace busbar {
namespace {

/// Each reason once, with its rows: `-d all -o all` would otherwise repeat it for every dtype and root.
std::string skip_text(const Plan& plan) {
  std::string text;
  std::set<std::string> said;
  for (const Skip& skip : plan.skipped) {
    const std::string what = skip.op ? fmt::format(" {}", name(*skip.op)) : "";
    const std::string line = fmt::format("busbar: skipped: {}{}: {}\n", plan.collective->name, what, skip.reason);
    if (said.insert(line).second) text += line;
  }
  return text;
}

namespace fs = std::filesystem;

Cell cell_of(const Collective& collective, const Row& row, const HalfResult& half, bool in_place) {
  Cell cell;
  cell.scope = "all";
  cell.collective = collective.name;
  cell.dtype = name(row.row_case.dtype);
  cell.op = redop_text(row.row_case.op);
  cell.root = shown_root(collective, row.row_case.root);
  cell.nbytes = row.row_case.nbytes;
  cell.in_place = in_place;
  if (row.algorithm) cell.algorithm = row.algorithm->algorithm;
  if (std::isfinite(half.busbw)) cell.busbw = half.busbw;
  cell.wrong = half.wrong;
  cell.median_s = half.time_s;
  cell.epoch_medians_s = {half.time_s};
  if (half.stats) set_stats(cell, *half.stats);
  return cell;
}

/// `busbar` next to this program, else from PATH.
std::string busbar_program() {
  const fs::path sibling = program_beside("busbar");
  return access(sibling.c_str(), X_OK) == 0 ? sibling.string() : sibling.filename().string();
}

/// The child's message, without our usual prefix.
std::string message_of(const ChildResult& child, double timeout_s) {
  std::string text = child.err;
  for (const std::string_view prefix : {"busbar: ", "error: "})
    if (text.starts_with(prefix)) text.erase(0, prefix.size());
  text.erase(text.find_last_not_of('\n') + 1);
  return text.empty() ? describe_end(child, timeout_s) : text;
}

/// Runs `busbar history WORDS`; throws Error with its message and exit code.
void run_history_command(std::vector<std::string> words, const std::string& path) {
  std::vector<std::string> argv{busbar_program(), "history"};
  std::move(words.begin(), words.end(), std::back_inserter(argv));
  argv.insert(argv.end(), {"--history", path});
  ChildResult child;
  try {
    // The job's handler writes its report at once: a second after SIGTERM mpirun kills the ranks.
    ChildOptions options;
    options.takes_signals = false;
    child = run_child(argv, options);
  } catch (const Error&) {
    throw_not_possible(
        fmt::format("--history needs the program {}, which is neither next to this one nor in PATH", argv[0]));
  }
  if (child.good()) return;
  const ExitCode code = child.exit_code > 0 ? static_cast<ExitCode>(child.exit_code) : ExitCode::internal;
  throw Error(code, message_of(child, ChildOptions{}.timeout_s));
}

}  // namespace

Reporter::Reporter(bool is_root, const RunInfo& info, const Plan& plan, ReportKept report_kept)
    : is_root_(is_root), info_(info), plan_(plan), report_kept_(std::move(report_kept)), notes_(info.config, plan) {}

void Reporter::start() {
  if (!is_root_) return;
  const Config& config = info_.config;
  if (!config.history.empty()) {
    init_history_by_busbar(config.history);
    history_ = history_of_run(info_);
  }
  StartedFiles started;
  const auto open = [&]<class File>(std::unique_ptr<File>& file, const std::string& name, const auto&... more) {
    if (name.empty()) return;
    file = std::make_unique<File>(name, more...);
    started.add(file->path());
  };
  open(json_, config.output_file, info_, plan_);
  open(csv_, config.csv);
  open(samples_, config.samples_file);
  started.keep();
  if (json_) say_other_name(config.output_file, json_->path());
  if (csv_) say_other_name(config.csv, csv_->path());
  if (samples_) say_other_name(config.samples_file, samples_->path());
  progress_ = std::make_unique<Progress>(plan_, config.run_cycles, is_on_terminal(STDERR_FILENO));
  write_stderr(skip_text(plan_));
  if (const auto warning = plan_warning(plan_, config, traits_of(info_.backend).assumed_busbw)) say("{}", *warning);
  report_kept();
  to_table(table_header(info_));
}

template <class Visit>
void Reporter::each_file(const Visit& visit) const {
  if (json_) visit(*json_);
  if (csv_) visit(*csv_);
  if (samples_) visit(*samples_);
}

void Reporter::report_kept() {
  if (!report_kept_) return;
  std::vector<std::string> files;
  Lost lost;
  each_file([&](const auto& file) {
    if (file.complete()) files.push_back(file.path());
    file.add_lost(lost);
  });
  const std::size_t all = plan_.cases.size() * static_cast<std::size_t>(std::max(0, info_.config.run_cycles));
  // With -N 0 there are no others.
  report_kept_(all > 0 ? kept_text(fmt::format("{} of {}", rows_, counted(all, "row")), files, lost).append(kStartAgain)
                       : kept_text(counted(rows_, "row"), files, lost));
}

void Reporter::to_table(const std::string& text) {
  if (write_stdout(text) || !table_complete_) return;
  table_complete_ = false;
  say("warning: stdout takes no more output; the table is incomplete, JSON and CSV continue");
}

void Reporter::begin_row(const Case& row_case) {
  if (progress_) progress_->begin_row(row_case);
}

void Reporter::row(const Row& row) {
  if (!is_root_) return;
  progress_->erase();
  // Files first: if you saw a row, it is in the file, however the process ends.
  if (csv_) csv_->add(info_.config, *plan_.collective, row);
  if (json_) json_->add(row);
  if (samples_) samples_->flush();
  ++rows_;
  report_kept();
  to_table(table_row(info_.config, *plan_.collective, row) + traffic_summary(info_.config, *plan_.collective, row) +
           phases_line(row));
  if (!row.wrong.empty()) write_stderr(wrong_text(*plan_.collective, row, json_ != nullptr));
  if (history_) add_row(*history_, info_.config, *plan_.collective, row);
  notes_.add(row);
  progress_->end_row(row.row_case);
}

void Reporter::samples(const Case& row_case, bool in_place, int epoch, std::span<const double> time_s,
                       std::span<const double> skew_s) {
  if (samples_) samples_->add(*plan_.collective, row_case, in_place, epoch, time_s, skew_s);
}

void Reporter::pass(int pass, int cells_done, int cells, double elapsed_s) {
  if (progress_) progress_->pass(pass, cells_done, cells, elapsed_s, info_.config.max_time_s);
}

bool Reporter::end(const Summary& summary, ExitCode code) {
  if (!is_root_) return true;
  progress_->erase();
  if (plan_.cases.empty()) {
    to_table("# Nothing was measured: every row was skipped, for the reasons on stderr\n");
    say("nothing was measured: every row was skipped");
  }
  if (!summary.bandwidth_okay.value_or(true))
    say("the average bus bandwidth is below nine tenths of NCCL_TESTS_MIN_BW, {:g} GB/s", *info_.config.min_bw);
  to_table(notes_.text(summary.disturbance) + table_footer(info_, summary));
  if (samples_) samples_->flush();
  if (json_) json_->finish(summary, code, local_timestamp());
  Lost lost;
  each_file([&](const auto& file) { file.add_lost(lost); });
  if (history_) {
    history_->exit_code = static_cast<int>(code);
    history_->outcome = outcome_of_exit(history_->exit_code);
    if (!add_to_history_by_busbar(info_.config.history, *history_)) lost.push_back("no run in " + info_.config.history);
  }
  return say_lost(lost, table_complete_);
}

HistoryRun history_of_run(const RunInfo& info) {
  HistoryRun run;
  run.uuid = info.launch_uuid;
  run.time = info.start_time;
  run.kind = "perf";
  run.title = info.program;
  run.command = joined_words(info.args);
  run.version = info.version;
  run.backend = info.backend;
  run.library = info.library_version;
  if (info.config.stat) run.estimand = info.cadence + ", " + info.estimand;
  // Times with another use of the buffers, or of MPI, belong to another series.
  const auto also = [&](std::string_view what, std::string_view word) {
    run.estimand += fmt::format("{}{} {}", run.estimand.empty() ? "" : ", ", what, word);
  };
  if (info.config.pattern != PingpongPattern::latency) {
    also("pattern", name(info.config.pattern));
    also("window", std::to_string(info.config.window));
  }
  if (info.config.nonblocking) also("calls", "nonblocking");
  if (info.config.buffers != BufferUse::rotate) also("buffers", name(info.config.buffers));
  if (info.mpi_threads.value_or(MpiThreads::single) != MpiThreads::single) also("MPI threads", name(*info.mpi_threads));
  for (const RankInfo& rank : info.ranks) add_once(run.hosts, rank.hostname);
  if (!info.ranks.empty()) run.platform = info.ranks.front().device.name;
  run.nranks = info.nranks;
  run.environment = steady_environment(info.environment);
  return run;
}

void add_row(HistoryRun& run, const Config& config, const Collective& collective, const Row& row) {
  for (const bool in_place : {false, true}) {
    const HalfResult* half = measured_half(config, row, in_place);
    if (half == nullptr) continue;
    Cell cell = cell_of(collective, row, *half, in_place);
    if (!is_kept(cell.median_s)) continue;
    const auto earlier = std::find_if(run.cells.begin(), run.cells.end(),
                                      [&](const Cell& c) { return row.cycle > 0 && same_cell(c, cell); });
    if (earlier == run.cells.end()) {
      run.cells.push_back(std::move(cell));
    } else {
      add_again(*earlier, cell);
    }
  }
}

void init_history_by_busbar(const std::string& path) { run_history_command({"init"}, path); }

bool add_to_history_by_busbar(const std::string& path, const HistoryRun& run) {
  const fs::path folder = fs::temp_directory_path();
  std::string file = (folder / "busbar-run-XXXXXX").string();
  const int descriptor = mkstemp(file.data());
  bool added = false;
  try {
    if (descriptor < 0)
      throw Error(ExitCode::internal, fmt::format("--history: no temporary file in {}", folder.string()));
    close(descriptor);
    if (const int error = replace_file(file, history_run_json(run)); error != 0)
      throw Error(ExitCode::internal, fmt::format("--history: cannot write {}: error {}", file, error));
    run_history_command({"add", file}, path);
    added = true;
  } catch (const std::exception& e) {
    say("warning: {}; the run is not in the history, its result stands", e.what());
  }
  if (descriptor >= 0) std::remove(file.c_str());
  return added;
}

}  // namespace busbar
