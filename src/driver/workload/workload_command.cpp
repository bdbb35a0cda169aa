#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/options.h"
#include "common/base/read_file.h"
#include "common/base/suggest.h"
#include "common/base/units.h"
#include "common/output/report_file.h"
#include "common/output/table.h"
#include "driver/command/subcommand.h"
#include "driver/readers/input_file.h"
#include "driver/readers/log_files.h"
#include "driver/workload/join_ranks.h"
#include "driver/workload/trace_readers.h"
#include "driver/workload/workload_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

namespace busbar {
namespace {

namespace fs = std::filesystem;

struct WorkloadOptions {
  std::string output, report, title, json;
  int rows = 20;
  bool help = false;
  std::vector<std::string> words;
};

std::vector<OwnOption> own_options(WorkloadOptions& o) {
  return {
      {"output", "FILE.yaml", "import: where to write the job", into(o.output), 'o'},
      {"report", "FILE.html", "write the summary as one HTML page, with a picture of a step", into(o.report)},
      {"title", "TEXT", "the title of that page", into(o.title)},
      {"rows", "N", "rows of each table on stdout (default: 20)",
       [&o](std::string_view text) { o.rows = parse_int(text, 1, 1000000); }},
  };
}

WorkloadOptions read_options(int argc, char** argv) {
  WorkloadOptions options;
  const CommandLine line = scan_arguments(argc, argv, own_options(options));
  options.json = only_output_file(line, "workload");
  options.words = line.words;
  options.help = line.asks_help();
  return options;
}

constexpr std::string_view kReadable =
    "a trace of PyTorch's profiler, a dump of its Flight Recorder, a log of NCCL's COLL lines or of its Inspector";

/// Compressed files that are read as a whole are unpacked into memory first.
InputFile plain(const InputFile& file) {
  const std::vector<fs::path> paths{file.opens};
  std::vector<InputFile> files = unpacked(paths);
  if (files.size() != 1 || files.front().opens == file.opens) return plain_text(file, true);
  files.front().path = file.path;
  return plain_text(files.front(), true);
}

std::vector<TraceRank> read_trace(const InputFile& file) {
  const std::string name = file.path.string();
  if (!file.trouble.empty() && file.opens.empty()) throw_bad_config(fmt::format("{}: {}", name, file.trouble));
  std::string trouble;
  NextBytes next = blocks_of(file, trouble);
  std::string first(next());
  const RecognizedTrace found = recognize_trace(std::string_view(first).substr(0, kHead));
  if (found.kind == TraceKind::refused || found.kind == TraceKind::workload || found.kind == TraceKind::none) {
    const std::string why = !trouble.empty() ? trouble
                            : first.empty()  ? "it is empty"
                            : found.kind == TraceKind::none
                                ? fmt::format("it is none of these: {}", kReadable)
                                : fmt::format("it is {}, which workload import does not read{}{}", found.what,
                                              found.instead.empty() ? "" : "; ", found.instead);
    throw_bad_config(fmt::format("{}: {}", name, why));
  }
  std::vector<TraceRank> ranks;
  if (found.kind == TraceKind::flight_dump) {
    ranks = read_flight_dump(plain(file));
  } else if (found.kind == TraceKind::log) {
    ranks = read_call_log(plain(file));
    if (ranks.empty())
      throw_bad_config(name + ": the log has no lines of calls; set NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,COLL");
  } else {
    bool begun = false;
    ranks.push_back(read_kineto(
        [&]() -> std::string_view { return std::exchange(begun, true) ? next() : std::string_view(first); }, name));
    if (!trouble.empty()) ranks.back().remarks.push_back(trouble);
  }
  for (TraceRank& rank : ranks) rank.source.file = name;
  return ranks;
}

/// The files, with what is in archives in their place.
std::vector<InputFile> inputs_of(const std::vector<std::string>& words) {
  std::vector<InputFile> inputs;
  for (const fs::path& path : find_log_files(std::vector<fs::path>(words.begin(), words.end()))) {
    InputFile file{path, path, {}, {}};
    if (path == "-") throw_bad_config("standard input is not read here: give files or folders");
    if (!is_archive(file)) {
      inputs.push_back(std::move(file));
      continue;
    }
    for (InputFile& member : unpacked(std::vector<fs::path>{path})) inputs.push_back(std::move(member));
  }
  return inputs;
}

Workload import_traces(const std::vector<std::string>& words, std::vector<StepLanes>& lanes) {
  const std::vector<InputFile> inputs = inputs_of(words);
  JoinRanks join;
  std::vector<std::string> wrong;
  for (const InputFile& file : inputs) {
    std::vector<TraceRank> ranks;
    try {
      ranks = read_trace(file);
    } catch (const Error& error) {
      wrong.push_back(error.what());
      continue;
    }
    for (TraceRank& rank : ranks) join.add(std::move(rank));
  }
  if (!wrong.empty() && wrong.size() == inputs.size()) {
    throw_bad_config(wrong.size() == 1 ? wrong.front()
                                       : fmt::format("{}; and {} more files are no traces that it reads", wrong.front(),
                                                     wrong.size() - 1));
  }
  Workload job = join.finish();
  constexpr std::size_t kMostTold = 20;
  for (std::size_t i = 0; i < std::min(wrong.size(), kMostTold); ++i) job.remarks.push_back("not read: " + wrong[i]);
  if (wrong.size() > kMostTold) job.remarks.push_back(fmt::format("not read: {} more files", wrong.size() - kMostTold));
  lanes = join.lanes();
  return job;
}

int workload(int argc, char** argv) {
  WorkloadOptions options = read_options(argc, argv);
  if (options.help) {
    fmt::print("{}", help_of("workload", own_options(options)));
    return 0;
  }
  const std::string action = options.words.empty() ? "" : options.words.front();
  const std::vector<std::string> actions{"import", "show"};
  if (!contains(actions, action)) {
    throw_bad_config(
        action.empty()
            ? "say what to do: `busbar workload import TRACES... -o job.yaml` or `busbar workload show job.yaml`"
            : unknown_choice("action", action, actions));
  }
  const std::vector<std::string> files(options.words.begin() + 1, options.words.end());
  if (files.empty())
    throw_bad_config(action == "import" ? "import: give trace files or folders"
                                        : "show: give a file that import wrote");
  Workload job;
  std::vector<StepLanes> lanes;
  if (action == "import") {
    job = import_traces(files, lanes);
  } else {
    if (files.size() > 1) throw_bad_config("show takes one file");
    if (!options.output.empty()) throw_bad_config("-o belongs to import; show writes no job");
    job = read_workload(read_file(files.front(), "the job", kMostYamlBytes), files.front());
  }
  if (!options.output.empty()) write_new_file(options.output, "-o", workload_yaml(job));
  if (!options.json.empty()) write_new_file(options.json, "-J", workload_json(job));
  if (!options.report.empty()) write_new_file(options.report, "--report", workload_html(job, lanes, options.title));
  if (!write_stdout(workload_text(job, static_cast<std::size_t>(options.rows)))) {
    throw Error(ExitCode::results_lost, "stdout takes no more output; the summary is incomplete");
  }
  return 0;
}

}  // namespace

int run_workload(int argc, char** argv) {
  return run_alone([&] { return workload(argc, argv); });
}

}  // namespace busbar
