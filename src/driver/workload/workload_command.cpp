#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/options.h"
#include "common/base/read_file.h"
#include "common/base/units.h"
#include "common/output/report_file.h"
#include "common/output/table.h"
#include "driver/command/subcommand.h"
#include "driver/readers/input_file.h"
#include "driver/readers/log_files.h"
#include "driver/workload/join_ranks.h"
#include "driver/workload/trace_rank.h"
#include "driver/workload/workload.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

namespace busbar {
namespace {

namespace fs = std::filesystem;

struct WorkloadOptions {
  std::string output, report, title;
  int rows = 20;
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

/// The files, with what is in archives in their place.
std::vector<InputFile> inputs_of(const std::vector<std::string>& words) {
  std::vector<InputFile> inputs;
  for (const fs::path& path : find_log_files(std::vector<fs::path>(words.begin(), words.end()))) {
    if (path == "-") throw_bad_config("standard input is not read here: give files or folders");
    std::vector<InputFile> of_path{{path, path, {}, {}}};
    if (is_archive(of_path.front())) of_path = unpacked(std::vector{path});
    inputs.insert(inputs.end(), of_path.begin(), of_path.end());
  }
  return inputs;
}

Workload import_traces(const std::vector<std::string>& words, std::vector<ReportLanes>& lanes) {
  const std::vector<InputFile> inputs = inputs_of(words);
  JoinRanks join;
  std::vector<std::string> wrong;
  std::vector<TraceRank> unnumbered;  // which get the numbers that the others leave
  for (const InputFile& file : inputs) {
    std::vector<TraceRank> ranks;
    try {
      ranks = read_trace(file);
    } catch (const Error& error) {
      wrong.push_back(error.what());
    }
    for (TraceRank& rank : ranks) rank.rank < 0 ? unnumbered.push_back(std::move(rank)) : join.add(std::move(rank));
  }
  for (TraceRank& rank : unnumbered) join.add(std::move(rank));
  if (!wrong.empty() && wrong.size() == inputs.size())
    throw_bad_config(wrong.front() +
                     (wrong.size() == 1
                          ? ""
                          : fmt::format("; and {} not read: {}", counted(wrong.size() - 1, "more file"), wrong[1])));
  Workload job = join.finish();
  add_first(job.remarks, "not read: ", wrong, 20);
  lanes = join.lanes();
  return job;
}

int workload(int argc, char** argv) {
  WorkloadOptions options;
  const CommandLine line = scan_arguments(argc, argv, own_options(options));
  const std::string json = only_output_file(line, "workload");
  if (line.asks_help()) {
    fmt::print("{}", help_of("workload", own_options(options)));
    return 0;
  }
  if (line.words.empty())
    throw_bad_config("say what to do: `busbar workload import TRACES...` or `busbar workload show job.yaml`");
  const std::string& action = line.words.front();
  const std::vector<std::string> actions{"import", "show"}, files(line.words.begin() + 1, line.words.end());
  if (!contains(actions, action)) throw_bad_config(unknown_choice("action", action, actions));
  Workload job;
  std::vector<ReportLanes> lanes;
  if (action == "import") {
    if (files.empty()) throw_bad_config("import: give trace files or folders");
    job = import_traces(files, lanes);
  } else {
    if (files.size() != 1) throw_bad_config("show: give one file that import wrote");
    if (!options.output.empty()) throw_bad_config("-o belongs to import; show writes no job");
    job = read_workload(read_file(files.front(), "the job", kMostYamlBytes), files.front());
  }
  if (!options.output.empty()) write_new_file(options.output, "-o", workload_yaml(job));
  if (!json.empty()) write_new_file(json, "-J", workload_json(job));
  if (!options.report.empty()) write_new_file(options.report, "--report", workload_html(job, lanes, options.title));
  if (!write_stdout(workload_text(job, static_cast<std::size_t>(options.rows))))
    throw Error(ExitCode::results_lost, "stdout takes no more output; the summary is incomplete");
  return 0;
}

}  // namespace

int run_workload(int argc, char** argv) {
  return run_alone([&] { return workload(argc, argv); });
}

}  // namespace busbar
