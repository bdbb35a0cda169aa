#include "common/base/error.h"
#include "common/base/options.h"
#include "common/base/read_file.h"
#include "common/base/say.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/job/session_job.h"
#include "common/output/report_file.h"
#include "common/output/table.h"
#include "common/processes/child.h"
#include "common/processes/comm.h"
#include "common/processes/launcher.h"
#include "common/record/node_report.h"
#include "driver/command/subcommand.h"
#include "driver/doctor/checks.h"
#include "driver/doctor/join_nodes.h"
#include "driver/formats/output_options.h"
#include "driver/formats/result_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

namespace busbar {
namespace {

struct DoctorOptions {
  bool local = false;
  bool merge = false;
  bool verbose = false;
  bool strict = false;
  bool help = false;
  std::string diff;         ///< the older report
  std::string recorded;     ///< for tests: look at a recorded machine
  std::string output_file;  ///< -J
  OutputOptions outputs;    ///< --junit and the like
  std::vector<std::string> files;

  /// Whether a launcher's ranks have anything to do together.
  bool needs_ranks() const { return !local && !merge && !help && recorded.empty(); }
};

std::vector<OwnOption> own_options(DoctorOptions& o) {
  using Text = std::string_view;
  std::vector<OwnOption> own{
      {"local", "", "this node alone, without MPI, even in a job", [&](Text) { o.local = true; }},
      {"merge", "", "join reports of nodes, FILE.json ..., instead of checking this one",
       [&](Text) { o.merge = true; }},
      {"diff", "OLD.json", "also say what changed since that report, with the counters that moved",
       [&](Text t) { o.diff = t; }},
      {"verbose", "", "print every row, not only what is not OK", [&](Text) { o.verbose = true; }, 'v'},
      {"strict", "", "a warning fails too", [&](Text) { o.strict = true; }},
  };
  for (OwnOption& option : output_own_options(o.outputs)) own.push_back(std::move(option));
  own.push_back({"recorded", "FILE", "", [&](Text t) { o.recorded = t; }});
  return own;
}

void check_options(const DoctorOptions& o) {
  if (o.merge && o.files.empty())
    throw_bad_config("--merge what? Give the files that `busbar doctor --local -J FILE.json` wrote");
  if (!o.merge && !o.files.empty())
    throw_bad_config(o.files.front() +
                     " has no meaning in doctor; reports of other nodes are joined with --merge FILE.json ...");
  if (o.merge && o.local) throw_bad_config("--merge and --local: either one");
}

/// Writes --junit and the like. The checks take seconds, so the files are opened only here.
Lost write_files(const OutputOptions& options, const std::vector<NodeReport>& nodes, const DoctorVerdict& verdict) {
  AcceptResult result = result_of_doctor(nodes, verdict);
  result.version = BUSBAR_VERSION;
  result.command = {"busbar", "doctor"};
  result.start_time = result.end_time = nodes.empty() ? local_timestamp() : nodes.front().time;
  OutputFiles files;
  StartedFiles started;
  files.open(options, result, "doctor", started);
  started.keep();
  return files.write(result);
}

double latest(const std::vector<NodeReport>& nodes) {
  return nodes.empty() ? 0 : std::ranges::max_element(nodes, {}, &NodeReport::time_s)->time_s;
}

DoctorDifference difference(const std::string& file, const std::vector<NodeReport>& old,
                            const std::vector<NodeReport>& nodes) {
  return {.before = file,
          .seconds = std::max(0.0, latest(nodes) - latest(old)),
          .changes = changed_rows(old, nodes),
          .counters = {},
          .gone = missing_hosts(old, nodes),
          .added = missing_hosts(nodes, old)};
}

/// The nodes with what their counters did since, which counts like any other finding. Harmless ones go to `d`.
std::vector<NodeReport> with_moved(const std::vector<NodeReport>& old, std::vector<NodeReport> nodes,
                                   DoctorDifference& d) {
  for (NodeReport& moved : moved_on_nodes(old, nodes)) {
    const auto node = std::ranges::find_if(nodes, [&](const auto& n) { return n.host == moved.host; });
    for (DoctorRow& row : moved.rows) {
      if (row.outcome == Outcome::pass) {
        row.subject = moved.host + " " + row.subject;
        d.counters.push_back(std::move(row));
      } else {
        node->rows.push_back(std::move(row));
      }
    }
  }
  return nodes;
}

/// Joins, prints, writes -J and compares with --diff; returns the process's exit code. For one process.
int conclude_doctor(const DoctorOptions& options, const std::vector<NodeReport>& nodes) {
  DoctorVerdict verdict;
  std::string since;
  if (options.diff.empty()) {
    verdict = join_nodes(nodes);
  } else {
    const std::vector<NodeReport> old = read_doctor_json(read_file(options.diff, "the older report"), options.diff);
    DoctorDifference d = difference(options.diff, old, nodes);
    verdict = join_nodes(with_moved(old, nodes, d));
    since = doctor_difference_text(d);
  }
  std::string text = doctor_text(verdict) + since;
  if (options.verbose) text += doctor_rows_text(nodes);
  StartedFiles started;
  const std::string path =
      options.output_file.empty() ? "" : started.add(create_result_file(options.output_file, "-J"));
  const bool printed = write_stdout(text);
  Lost lost = write_files(options.outputs, nodes, verdict);
  const int error = path.empty() ? 0 : replace_file(path, doctor_json(nodes, verdict));
  if (error != 0) lost.push_back(fmt::format("nothing in {} ({})", is_stdout(path) ? "stdout" : path, why_lost(error)));
  if (error == 0) started.keep();
  const bool complete = say_lost(lost, printed);
  const bool bad = verdict.outcome == Outcome::fail || (options.strict && verdict.outcome == Outcome::warn);
  return static_cast<int>(bad ? ExitCode::wrong_data : complete ? ExitCode::good : ExitCode::results_lost);
}

/// Of a node that is in several files, the newest report.
std::vector<NodeReport> merged_files(const std::vector<std::string>& files) {
  std::vector<NodeReport> nodes;
  std::map<std::string, std::size_t> at;
  for (const std::string& file : files) {
    for (NodeReport& node : read_doctor_json(read_file(file, "the node's report"), file)) {
      const auto [found, is_new] = at.try_emplace(node.host, nodes.size());
      if (is_new) {
        nodes.push_back(std::move(node));
        continue;
      }
      say("{} is in several reports; the newest counts", printable(node.host));
      if (node.time_s > nodes[found->second].time_s) nodes[found->second] = std::move(node);
    }
  }
  return nodes;
}

int doctor(DoctorOptions options) {
  if (options.help)
    return write_stdout(help_of("doctor", own_options(options))) ? 0 : static_cast<int>(ExitCode::results_lost);
  if (options.merge) return conclude_doctor(options, merged_files(options.files));
  if (!options.recorded.empty()) {
    const Probe probe = probe_recorded(read_file(options.recorded, "the recorded machine"), options.recorded);
    return conclude_doctor(options, {look_at_node(probe)});
  }
  return conclude_doctor(options, {look_at_this_node()});
}

int doctor_of_job(const DoctorOptions& options, const Launch& launch, int argc, char** argv) {
  constexpr double kTimeout = 120;  // a node that does not answer is found by the watchdog
  return run_session(argc, argv, launch, {kTimeout}, [&](Job& job) {
    const Comm& world = job.world();
    job.set_step("looking at the nodes");
    const std::vector<NodeReport> nodes = gather_doctor(world);
    std::int64_t code = 0;
    on_process0(world, [&] { code = conclude_doctor(options, nodes); });
    return static_cast<ExitCode>(world.max(code));
  });
}

Launch launch_of_job() {
  try {
    return job_launch();
  } catch (const Error& e) {
    throw Error(e.code(),
                fmt::format("{}; or busbar doctor --local -J NODE.json on each node, then --merge *.json", e.what()));
  }
}

}  // namespace

int run_doctor(int argc, char** argv) {
  const Launch detected = detect_launch();
  std::optional<Launch> of_job;
  DoctorOptions options;
  // With --local each node's own rank reports: its file and exit code were requested.
  const int code = run_before_session(detected, [&] {
    options = read_own_options(argc, argv, own_options, check_options, "doctor");
    if (detected.launched() && detected.problem.empty() && options.needs_ranks()) {
      of_job = launch_of_job();
      return 0;
    }
    const bool is_root = !detected.problem.empty() || (options.local ? detected.local_rank <= 0 : detected.rank <= 0);
    return is_root ? doctor(options) : 0;
  });
  return of_job ? doctor_of_job(options, *of_job, argc, argv) : code;
}

}  // namespace busbar
