#include "driver/report/report_command.h"

#include "common/base/error.h"
#include "common/base/read_file.h"
#include "common/base/text.h"
#include "common/job/before_session.h"
#include "common/output/report_file.h"
#include "common/output/table.h"
#include "common/processes/launcher.h"
#include "driver/command/subcommand.h"
#include "driver/report/report_files.h"
#include "driver/report/report_html.h"

#include <fmt/format.h>

namespace busbar {
namespace {

struct ReportOptions {
  std::vector<std::string> files;
  std::string output = "report.html";
  std::string title;
  bool help = false;
};

std::vector<OwnOption> own_options(ReportOptions& options) {
  return {{"output", "OUT.html", "the file to write, - for stdout; report.html as a rule. An existing file is",
           [&](std::string_view text) { options.output = text; }, 'o'},
          {"title", "TEXT", "the report's heading", [&](std::string_view text) { options.title = text; }}};
}

std::string report_help() {
  ReportOptions unused;
  std::string options = own_options_help(own_options(unused));
  options.insert(options.find("\n") + 1, std::string(38, ' ') + "kept, OUT.html.0 is written\n");
  return "usage: busbar report FILE.json... [-o OUT.html] [--title TEXT]\n\n"
         "Makes one HTML file that needs no network: verdict, bandwidth and latency over size, the pairs' heat map, "
         "every\nrank's lateness, doctor's findings, what was run. FILE: what -J of the benchmarks, of compare, merge, "
         "locate or\ndoctor wrote, or accept's results. Several files share the charts, and equal cells are compared "
         "with the first file's:\nbefore and after, cluster A and B.\n\n" +
         options +
         "\nThe exit code does not judge: 0 when the report was written, 255 for files that are none of these.\n";
}

ReportOptions read_options(int argc, char** argv) {
  ReportOptions options;
  CommandLine line = scan_arguments(argc, argv, own_options(options));
  options.files = std::move(line.words);
  options.help = line.asks_help();
  refuse_shared_options(line, "report");
  if (options.output.empty()) throw Error(ExitCode::bad_config, "--output: an empty name");
  if (!options.help && options.files.empty()) {
    throw Error(ExitCode::bad_config, "report: of which result files? `busbar report --help` tells more");
  }
  return options;
}

void write_report(const std::string& path, const std::string& text) {
  if (path == "-") {
    if (!write_document(text)) throw Error(ExitCode::internal, "stdout takes no more output; the report is incomplete");
    return;
  }
  write_stdout(fmt::format("wrote {}\n", write_new_file(path, "--output", text)));
}

int report(int argc, char** argv, bool is_root) {
  const ReportOptions options = read_options(argc, argv);
  if (!is_root) return 0;
  if (options.help) {
    fmt::print("{}", report_help());
    return 0;
  }
  std::vector<ResultFile> files;
  for (const std::string& file : options.files) files.push_back({file, read_file(file, "the result file")});
  ReportData data = read_report_files(files);
  if (!options.title.empty()) data.title = options.title;
  write_report(options.output, report_html(data));
  return 0;
}

}  // namespace

int run_report(int argc, char** argv) {
  const Launch launch = detect_launch();
  return run_before_session(launch, [&] { return report(argc, argv, launch.rank <= 0); });
}

}  // namespace busbar
