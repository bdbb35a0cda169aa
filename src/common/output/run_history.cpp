#include "common/output/run_history.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/say.h"
#include "common/base/text.h"
#include "common/output/format.h"
#include "common/output/report_file.h"
#include "common/processes/child.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace busbar {
namespace {

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
  for (const std::string_view prefix : {"busbar: ", "error: "}) {
    if (text.starts_with(prefix)) text.erase(0, prefix.size());
  }
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
    if (const int error = replace_file(file, history_run_json(run)); error != 0) {
      throw Error(ExitCode::internal, fmt::format("--history: cannot write {}: error {}", file, error));
    }
    run_history_command({"add", file}, path);
    added = true;
  } catch (const std::exception& e) {
    say("warning: {}; the run is not in the history, its result stands", e.what());
  }
  if (descriptor >= 0) std::remove(file.c_str());
  return added;
}

}  // namespace busbar
