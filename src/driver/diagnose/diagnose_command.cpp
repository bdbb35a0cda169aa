#include "common/base/embedded_file.h"
#include "common/base/error.h"
#include "common/base/text.h"
#include "common/output/table.h"
#include "common/processes/child.h"
#include "common/processes/launcher.h"
#include "common/watch/flight_record.h"
#include "driver/command/subcommand.h"
#include "driver/diagnose/diagnose_inputs.h"
#include "driver/diagnose/looks/judge_looks.h"
#include "driver/readers/log_files.h"
#include "driver/rules/line_rules.h"
#include "driver/rules/remedies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace busbar {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kUnknownLines = 200;

struct DiagnoseOptions {
  std::vector<fs::path> paths;
  std::string flight_folder, jobid, json_file, rules_file, explain;
  bool json = false, unknown = false, help = false, help_capture = false, list = false;
};

std::vector<OwnOption> own_options(DiagnoseOptions& o) {
  using Text = std::string_view;
  return {
      {"json", "[=FILE]", "print JSON instead of text; with a file, write it there next to the text",
       [&](Text t) {
         o.json = t.empty();
         o.json_file = t;
       }},
      {"flight", "FOLDER", "read the flight records that busbar's jobs keep there (/dev/shm)",
       [&](Text t) {
         o.list = o.list || t == "--list";
         if (t != "--list") o.flight_folder = t;
       }},
      {"job", "ID", "with --flight: of this job (default: the newest)", [&](Text t) { o.jobid = t; }},
      {"list", "", "with --flight: print only which jobs have records there", [&](Text) { o.list = true; }},
      {"unknown", "", "show NCCL's lines that were not understood", [&](Text) { o.unknown = true; }},
      {"rules", "FILE", "more rules for lines of logs, of your site (docs/messages.md)",
       [&](Text t) { o.rules_file = parse_file_name(t); }},
      {"explain", "ID", "print only what a rule or an XID means and what to do", [&](Text t) { o.explain = t; }},
      {"help-capture", "", "how to run a job so that its logs show what hung", [&](Text) { o.help_capture = true; }},
  };
}

DiagnoseOptions read_options(int argc, char** argv) {
  DiagnoseOptions options;
  const CommandLine line = scan_arguments(argc, argv, own_options(options));
  for (const std::string& word : line.words) options.paths.emplace_back(word);
  options.help = line.asks_help();
  const std::string file = only_output_file(line, "diagnose");
  options.json = options.json || file == "-";
  if (!file.empty() && file != "-") options.json_file = file;
  if (options.list && options.flight_folder.empty()) options.flight_folder = "/dev/shm";
  if (options.help || options.help_capture || !options.explain.empty()) return options;
  if (options.paths.empty() && options.flight_folder.empty()) {
    throw_bad_config(
        "nothing to read. Give log files or folders, \"-\" for standard input, or --flight /dev/shm; `busbar diagnose "
        "--help-capture` shows how to get logs");
  }
  if (!options.jobid.empty() && options.flight_folder.empty()) throw_bad_config("--job goes with --flight FOLDER");
  return options;
}

/// The records in the folder of --flight, of which there is one.
std::vector<FlightState> read_folder(const fs::path& folder) {
  std::error_code unknown;
  if (!fs::is_directory(folder, unknown)) {
    throw_bad_config(fmt::format("--flight {}: there is no such folder", in_quotes(folder.string())));
  }
  std::vector<FlightState> flights = read_flights(std::span(&folder, 1), "");
  if (!flights.empty()) return flights;
  throw_bad_config(
      fmt::format("--flight {}: no flight record there; busbar's jobs keep theirs in /dev/shm of each host "
                  "($TMPDIR if that is full); a run that starts a day later removes them",
                  in_quotes(folder.string())));
}

/// The evidence of each job from other sources than logs, with the finding that follows from it.
std::vector<JudgedHang> judge_hangs(const DiagnoseOptions& options, DiagnoseInputs& inputs) {
  if (const fs::path folder = options.flight_folder; !folder.empty()) {
    std::vector<FlightState> flights = read_folder(folder);
    const std::size_t all = flights.size();
    flights = flights_of_job(std::move(flights), options.jobid);
    const bool others = options.jobid.empty() && flights.size() < all;
    inputs.others.push_back({folder,
                             fmt::format("{} flight records of job {}{}", flights.size(), flights[0].jobid,
                                         others ? ", the newest one (--list shows the others)" : ""),
                             0});
    inputs.hangs.push_back(evidence_of_flights(std::move(flights)));
  }
  if (!inputs.flights.empty())
    inputs.hangs.push_back(evidence_of_flights(flights_of_job(std::move(inputs.flights), "")));
  std::vector<JudgedHang> judged;
  for (HangEvidence& evidence : inputs.hangs) {
    evidence.ras.insert(evidence.ras.end(), inputs.ras.begin(), inputs.ras.end());
    HangFinding finding = judge(evidence);
    judged.push_back({std::move(evidence), std::move(finding)});
  }
  for (const JobLook& looks : inputs.looks) judged.push_back(judge_looks(looks));
  return judged;
}

std::string field(std::string_view name, std::string_view text) {
  return text.empty() ? "" : fmt::format("  {:<8} {}\n", name, text);
}

std::string explain(const LineRule& rule) {
  std::string text = fmt::format("{} ({})\n", rule.id, rule.program.empty() ? "any program" : rule.program);
  text += field("kind", name_of(rule.kind)) + field("means", rule.means) + field("next", rule.remedy);
  text += field("versions", rule.versions) + field("source", rule.source);
  for (const std::string& example : rule.examples) text += field("line", example);
  return text;
}

/// Those of the program that `id` begins with; all of them if there is none.
std::vector<std::string> like(std::string_view id) {
  std::vector<std::string> all, alike;
  for (const LineRule& rule : builtin_line_rules().all()) {
    all.push_back(rule.id);
    if (mentions(rule.id, id.substr(0, id.find('-')))) alike.push_back(rule.id);
  }
  return alike.empty() ? all : alike;
}

/// What a rule or an XID ("xid-79", "79") means, and what to do.
std::string explain_rule(std::string_view id) {
  for (const LineRule& rule : builtin_line_rules().all()) {
    if (rule.id == id) return explain(rule);
  }
  if (const auto number = number_of<int>(id.substr(id.starts_with("xid-") ? 4 : 0))) {
    const XidMeaning& xid = xid_meaning(*number);
    return fmt::format("xid-{} (NVIDIA's driver)\n", *number) + field("means", xid.meaning) + field("next", xid.advice);
  }
  throw_bad_config(fmt::format("no rule is called {}; there are: {} and xid-NUMBER", in_quotes(std::string(id)),
                               fmt::join(like(id), ", ")));
}

int diagnose(int argc, char** argv, bool is_root) {
  DiagnoseOptions options = read_options(argc, argv);
  if (!is_root) return static_cast<int>(ExitCode::good);
  if (options.help || options.help_capture) {
    // The variables of NCCL that it names are those of src/debug.cc (2.4 to 2.30), PyTorch's those of
    // ProcessGroupNCCL.hpp (2.2 to 2.8).
    fmt::print(
        "{}", options.help ? help_of("diagnose", own_options(options)) : embedded_text(embedded_help(), "capture.txt"));
    return static_cast<int>(ExitCode::good);
  }
  if (!options.rules_file.empty()) add_site_rules(options.rules_file);
  if (!options.explain.empty()) {
    fmt::print("{}", explain_rule(options.explain));
    return static_cast<int>(ExitCode::good);
  }
  if (options.list)
    return write_stdout(jobs_text(read_folder(options.flight_folder))) ? 0 : static_cast<int>(ExitCode::internal);
  DiagnoseInputs inputs = sort_inputs(unpacked(find_log_files(options.paths)));
  const bool has_evidence = std::ranges::any_of(inputs.others, &DiagnoseInputs::OtherFile::is_evidence);
  if (!inputs.others.empty() && !has_evidence && inputs.logs.empty() && options.flight_folder.empty()) {
    const DiagnoseInputs::OtherFile& wrong = inputs.others.front();
    throw_bad_config(fmt::format("{} holds {}; give diagnose logs, hang-*.json or flight records",
                                 in_quotes(wrong.path.string()), wrong.what));
  }
  DiagnoseResult result;
  result.hangs = judge_hangs(options, inputs);
  result.others = std::move(inputs.others);
  // If only our own evidence was given there are no logs to report on.
  if (!inputs.logs.empty() || !inputs.ras.empty() || result.hangs.empty()) {
    ReadLogs logs = read_logs(inputs.logs, options.unknown ? kUnknownLines : 0);
    result.unknown = std::move(logs.unknown);
    inputs.ras.insert(inputs.ras.end(), logs.ras.begin(), logs.ras.end());
    result.logs = logs.job.conclude(std::move(logs.files), inputs.ras);
  }
  if (!options.json_file.empty()) write_diagnose_json(options.json_file, result);
  if (!write_stdout(options.json ? diagnose_json(result) : diagnose_text(result, options.unknown)))
    throw Error(ExitCode::results_lost, "stdout takes no more output; the diagnosis is incomplete");
  return static_cast<int>(exit_code(verdict_of(result)));
}

}  // namespace

std::optional<Finding> finding_in(std::string_view output) {
  const InputFile file = input_in_memory("its output", output);
  ReadLogs logs = read_logs({&file, 1}, 0);
  return logs.job.conclude(std::move(logs.files), logs.ras);
}

int run_diagnose(int argc, char** argv) {
  const Launch launch = command_launch();
  return run_before_session(launch, [&] { return diagnose(argc, argv, launch.rank <= 0); });
}

}  // namespace busbar
