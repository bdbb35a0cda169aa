#include "driver/merge/merge.h"

#include "common/base/error.h"
#include "common/base/options.h"
#include "common/base/read_file.h"
#include "common/base/units.h"
#include "common/job/before_session.h"
#include "common/output/report_file.h"
#include "common/output/table.h"
#include "common/processes/launcher.h"
#include "driver/command/subcommand.h"
#include "driver/merge/merged_runs.h"

#include <fmt/format.h>

#include <algorithm>

namespace busbar {
namespace {

struct MergeOptions {
  std::vector<std::string> files;
  std::string output_file;
  double launch_cost_s = 2;
  bool help = false;
};

std::vector<OwnOption> own_options(MergeOptions& options) {
  return {{"launch-cost", "SECONDS", "what a launch costs beside measuring, for the best number of epochs; 2 as a rule",
           [&](std::string_view text) { options.launch_cost_s = parse_duration(text); }}};
}

std::string merge_help() {
  MergeOptions unused;
  return "usage: busbar merge FILE.json FILE.json ... [-J OUT.json]\n\n"
         "Combines launches of the same benchmark, each written by --stat -J: the median over launches with the\n"
         "interval that only launches can give, what varies between and within them, and whether the machine was the\n"
         "same.\n\n" +
         own_options_help(own_options(unused)) +
         "  -J, --output_file FILE.json         also write it as JSON; an existing file is kept, FILE.json.0 is "
         "written\n"
         "\nExit code 7: wrong data in a launch.\n";
}

MergeOptions read_options(int argc, char** argv) {
  MergeOptions options;
  CommandLine line = scan_arguments(argc, argv, own_options(options));
  options.files = std::move(line.words);
  options.help = line.asks_help();
  options.output_file = only_output_file(line, "merge");
  return options;
}

int merge(int argc, char** argv, bool is_root) {
  const MergeOptions options = read_options(argc, argv);
  if (!is_root) return 0;
  if (options.help) {
    fmt::print("{}", merge_help());
    return 0;
  }
  std::vector<RunFile> runs;
  for (const std::string& file : options.files) runs.push_back(read_run(read_file(file, "the run file"), file));
  const MergedRuns merged = merge_runs(std::move(runs), options.launch_cost_s);
  if (!options.output_file.empty()) write_new_file(options.output_file, "-J", merged_json(merged));
  if (!write_stdout(merged_text(merged))) {
    throw Error(ExitCode::internal, "stdout takes no more output; the table is incomplete");
  }
  const bool wrong =
      std::any_of(merged.cells.begin(), merged.cells.end(), [](const MergedCell& c) { return c.wrong > 0; });
  return static_cast<int>(wrong ? ExitCode::wrong_data : ExitCode::good);
}

}  // namespace

int run_merge(int argc, char** argv) {
  const Launch launch = detect_launch();
  return run_before_session(launch, [&] { return merge(argc, argv, launch.rank <= 0); });
}

}  // namespace busbar
