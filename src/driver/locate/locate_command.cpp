#include "driver/locate/locate_command.h"

#include "common/base/launch_uuid.h"
#include "common/base/timestamp.h"
#include "common/base/units.h"
#include "common/job/before_session.h"
#include "common/job/perf_setup.h"
#include "common/job/session_job.h"
#include "common/measure/stat_runner.h"
#include "common/mpi/child.h"
#include "common/mpi/collectively.h"
#include "common/output/progress.h"
#include "common/output/report_file.h"
#include "common/output/table.h"
#include "common/output/terminal_line.h"
#include "driver/locate/locate_json.h"
#include "driver/locate/locate_options.h"
#include "driver/locate/locate_run.h"
#include "driver/locate/locate_text.h"
#include "driver/verdict/tool_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>

namespace busbar {
namespace {

ExitCode exit_code(Outcome outcome) {
  switch (outcome) {
    case Outcome::fail:
      return ExitCode::wrong_data;  // a criterion missed
    case Outcome::inconclusive:
      return ExitCode::inconclusive;
    case Outcome::skip:
    case Outcome::pass:
    case Outcome::warn:
      return ExitCode::good;
  }
  return ExitCode::internal;
}

/// What is left of a run on process 0: the screen, the JSON file and the others.
class Reports {
 public:
  Reports(const RunInfo& info, const OutputOptions& output) : info_(info), output_(output) {}

  /// Creates the files. Process 0 alone.
  void open(const LocateRun& begun, const AcceptResult& result) {
    const std::string& asked = info_.config.output_file;
    if (!asked.empty()) {
      json_path_ = create_new_file(asked, "-J").path;
      if (json_path_ != asked) fmt::print(stderr, "busbar: {} exists; writing {}\n", asked, json_path_);
      write_json(begun, std::nullopt);
    }
    files_.open(output_, result, "locate");
  }

  void progress(const std::string& text) {
    if (stderr_is_terminal()) {
      line_.show(text);
    } else {
      fmt::print(stderr, "busbar: {}\n", text);
    }
  }

  /// The verdict. False where stdout or a file does not take it. Process 0 alone.
  bool end(const LocateRun& run, const AcceptResult& result, ExitCode code) {
    line_.erase();
    const bool printed = write_stdout(locate_text(run) + header());
    const bool written = write_json(run, code);
    return files_.write(result) && printed && written;
  }

 private:
  std::string header() const {
    std::string text = fmt::format("# busbar version {} locate: {} ranks, backend={} library={}\n", info_.version,
                                   info_.nranks, info_.backend, info_.library_version);
    for (const std::string& remark : info_.remarks) text += remark_lines(remark);
    return text;
  }

  bool write_json(const LocateRun& run, std::optional<ExitCode> code) {
    if (json_path_.empty()) return true;
    const int error = replace_file(json_path_, locate_json(info_, run, code));
    if (error != 0) fmt::print(stderr, "{}", write_warning(json_path_, error));
    return error == 0;
  }

  const RunInfo& info_;
  const OutputOptions& output_;
  std::string json_path_;
  OutputFiles files_;
  TerminalLine line_;
};

RunInfo describe_locate(std::span<char*> args, const Config& config, const Backend& backend, const Comm& world) {
  RunInfo info = describe_run(args, kSendrecv, config, backend, {}, describe_local_ranks(backend, world, 0), world);
  info.program = "busbar locate";
  info.seed = agree_on_seed(world, config.seed);
  return info;
}

std::string dry_run_text(const LocateRun& run, const LocateUnits& units) {
  const Search search(units.count(), run.options.search);
  const double seconds = search.planned_rounds() * run.options.round_s + run.options.search.soak_s;
  return fmt::format("# {} {}s, {} process{} of each at a time; about {} rounds of {} and about {} in all\n",
                     units.count(), name(units.kind()), units.rails(), units.rails() == 1 ? "" : "es",
                     search.planned_rounds(), format_duration(run.options.round_s), format_duration(seconds));
}

ExitCode locate_in_job(std::span<char*> args, const LocateArguments& arguments, Job& job) {
  const Comm& world = job.world();
  const Config& config = arguments.configured.config;
  job.configure(config);
  const Collective* const collectives[] = {&kSendrecv};
  OpenedJobBackend opened = job.open(config, world, collectives);
  RunInfo info = describe_locate(args, config, *opened.backend, world);
  job.add_remarks(info, config, std::move(opened.remarks));
  LocateRun run;
  run.options = arguments.options;
  run.options.search.seed = info.seed;
  if (config.dry_run) {
    const LocateUnits units = agree_on_units(world, run.options.unit);
    if (run.options.search.rails < 0) run.options.search.rails = units.rails();
    if (job.is_root()) fmt::print("{}", dry_run_text(run, units));
    return ExitCode::good;
  }
  Reports reports(info, arguments.output);
  on_process0(world, [&] { reports.open(run, result_of_run(info, run)); });
  run = run_search(job, *opened.backend, config, run.options, [&](const std::string& text) { reports.progress(text); });
  const ExitCode code = exit_code(run.outcome);
  job.watchdog().begin(Phase::output, "writing the results");
  bool complete = true;
  on_process0(world, [&] {
    AcceptResult result = result_of_run(info, run);
    result.end_time = local_timestamp();
    complete = reports.end(run, result, code);
  });
  return job.agreed_code(code, complete);
}

int run(const Launch& launch, int argc, char** argv) {
  const LocateArguments before = read_locate_arguments(argc, argv, std::nullopt, ::getenv);
  if (const auto code = help_or_version(launch, before.action, locate_help)) return *code;
  LocateArguments arguments;
  const auto work = [&](Job& job) {
    const std::optional<ConfigFile> file = agree_on_config_file(job.world(), before.config_file);
    collectively(job.world(), "reading the options",
                 [&] { arguments = read_locate_arguments(argc, argv, file, ::getenv); });
    return locate_in_job({argv, static_cast<std::size_t>(argc)}, arguments, job);
  };
  return run_session(argc, argv, launch, command_line_timeout_s(before.line), work);
}

}  // namespace

AcceptResult result_of_run(const RunInfo& info, const LocateRun& run) {
  const AcceptResult::Located& located = run.located;
  AcceptResult result = result_of_locate(located.unit, located.units, located.finding, located.matrix);
  for (const SlowRank& slow : run.ranks.slow) {
    CriterionResult criterion;
    criterion.criterion = Criterion::slow_rank;
    criterion.stage = Stage::pairs;
    criterion.scope = fmt::format("rank {}", slow.rank);
    criterion.outcome = slow.outcome;
    criterion.found = describe(slow);
    criterion.hosts = {slow.host};
    result.criteria.push_back(std::move(criterion));
  }
  for (const DoctorRow& row : run.counters) {
    CriterionResult criterion;
    criterion.criterion = Criterion::counters;
    criterion.stage = Stage::pairs;
    criterion.scope = row.subject;
    criterion.outcome = row.outcome;
    criterion.found = fmt::format("{} {}: {}", row.check, row.value, row.reason);
    criterion.hosts = {row.subject.substr(0, row.subject.find(' '))};
    result.criteria.push_back(std::move(criterion));
  }
  result.version = info.version;
  result.start_time = info.start_time;
  result.command = info.args;
  result.backend = info.backend;
  result.library = info.library_version;
  for (const RankInfo& rank : info.ranks) {
    const auto same = [&](const AcceptResult::Host& host) { return host.name == rank.hostname; };
    auto host = std::find_if(result.hosts.begin(), result.hosts.end(), same);
    if (host == result.hosts.end()) {
      host = result.hosts.insert(host, AcceptResult::Host{});
      host->name = rank.hostname;
      host->device = rank.device.name;
    }
    host->ranks.push_back(rank.rank);
  }
  result.outcome = run.outcome;
  return result;
}

int run_locate(int argc, char** argv) {
  const Launch launch = detect_launch();
  return run_before_session(launch, [&] {
    try {
      return run(launch, argc, argv);
    } catch (const Interrupted& e) {
      end_by_signal(e.signal());
    }
  });
}

}  // namespace busbar
