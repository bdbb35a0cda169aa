#include "programs/comm/comm_perf.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/options.h"
#include "common/base/say.h"
#include "common/base/timestamp.h"
#include "common/job/before_session.h"
#include "common/job/job.h"
#include "common/job/perf_setup.h"
#include "common/job/session_job.h"
#include "common/output/report_file.h"
#include "common/output/table.h"
#include "common/output/wrong_text.h"
#include "common/processes/collectively.h"
#include "programs/comm/lives.h"
#include "programs/comm/lives_report.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbar {
namespace {

constexpr std::string_view kProgram = "comm_perf";

/// The benchmarks' options that mean something here.
constexpr std::array<std::string_view, 23> kOwnOptions{
    "nthreads", "ngpus",  "iters",   "warmup_iters", "parallel_init", "timeout",    "output_file", "help",
    "sizes",    "config", "backend", "mpi-threads",  "ranks-per-gpu", "csv",        "topology",    "hang-timeout",
    "inject",   "stat",   "rel-ci",  "max-time",     "epochs",        "cta_policy", "version"};

constexpr std::string_view kAbout =
    "Times what programs do with communicators: create, first and next operation (an all_reduce of\n"
    "--sizes, by default 4K), split, dup, shrink, grow, abort, re-create, free; what the library lacks\n"
    "is left out, with the reason. -n counts lives of a communicator, and -w those before them that do\n"
    "not count.";

void check_options(const Configured& configured) {
  for (const std::string& name : configured.set_by_user) {
    if (contains(kOwnOptions, name)) continue;
    throw Error(ExitCode::bad_config,
                fmt::format("--{} has no meaning for {}: leave it out (--help lists the options)", name, kProgram));
  }
  const Config& config = configured.config;
  if (!config.split.empty()) {
    throw Error(ExitCode::bad_config, fmt::format("NCCL_TESTS_SPLIT has no meaning for {}: unset it", kProgram));
  }
  if (config.sizes.size() > 1) {
    throw Error(ExitCode::bad_config, "--sizes: give one size, that of the operation");
  }
  if (!config.sizes.empty() && config.sizes.front() % sizeof(float) != 0) {
    throw Error(ExitCode::bad_config, "--sizes: the operation reduces floats: give a multiple of 4 bytes");
  }
}

/// Table, JSON and CSV, by process 0. The files tell what is known so far, whenever the run ends.
class LivesFiles {
 public:
  /// Creates the files. Throws Error(bad_config).
  void open(const RunInfo& info) {
    if (!info.config.output_file.empty()) json_ = create(info.config.output_file, "-J");
    if (!info.config.csv.empty()) csv_ = create(info.config.csv, "--csv");
  }

  void write(const RunInfo& info, const LivesResult& result, const std::optional<LivesEnd>& end) {
    complete_ = replace(json_, [&] { return lives_json(info, result, end); });
    complete_ = replace(csv_, [&] { return lives_csv(info, result); }) && complete_;
  }

  bool complete() const { return complete_; }

  std::string kept(const LivesResult& result) const {
    std::vector<std::string> files;
    for (const std::string& path : {json_, csv_}) {
      if (!path.empty()) files.push_back(path);
    }
    return kept_text(fmt::format("{} {}", result.lives, result.lives == 1 ? "life" : "lives"), files);
  }

 private:
  static std::string create(const std::string& asked, std::string_view option) {
    NewFile file = create_new_file(asked, option);
    if (file.path != asked) say("{} exists; writing {}", asked, file.path);
    return file.path;
  }

  bool replace(const std::string& path, const std::function<std::string()>& text) {
    if (path.empty()) return true;
    const int error = replace_file(path, text());
    if (error != 0 && !std::exchange(warned_, true)) write_stderr(write_warning(path, error));
    return error == 0;
  }

  std::string json_;
  std::string csv_;
  bool complete_ = true;
  bool warned_ = false;
};

/// One run on an MPI that is up. Collective. Throws AgreedError where all processes fail alike, anything else where the
/// job must be aborted.
ExitCode run_lives(std::span<char*> args, const Config& config, const WrapBackend& wrap, Job& job) {
  const Comm& world = job.world();
  job.configure(config);
  const Collective* const collectives[] = {&kAllReduce};
  OpenedJobBackend opened = job.open(config, world, collectives, wrap);
  Backend& backend = *opened.backend;
  const std::unique_ptr<CommunicatorLife> life = backend.life(world);
  if (life == nullptr) {
    throw AgreedError(ExitCode::not_possible, fmt::format("{} does not measure the life of communicators of {}",
                                                          kProgram, backend.traits().title));
  }
  std::vector<RankInfo> local_ranks = describe_local_ranks(backend, world, 0);
  RunInfo info = describe_job(args, std::string(kProgram), config, backend, local_ranks, world);
  job.add_remarks(info, config, std::move(opened.remarks));

  LivesFiles files;
  on_process0(world, [&] { files.open(info); });
  bool table_complete = !job.is_root() || write_stdout(lives_header(info));
  Backend* const backends[] = {&backend};
  std::optional<Lives> lives;
  // Writing takes at most a part of the time, however many lives there are.
  constexpr std::chrono::seconds kApart{1};
  Clock::time_point next = Clock::now();
  const auto write_so_far = [&] {
    if (!job.is_root() || Clock::now() < next) return;
    job.watchdog().begin(Phase::output, "writing the results");
    const LivesResult& result = lives->describe();
    files.write(info, result, std::nullopt);
    job.tell_kept()(files.kept(result));
    next = Clock::now() + kApart;
  };
  job.guarded(job.step(), backends, [&] {
    lives.emplace(job, backend, *life, info.config, std::move(local_ranks));
    lives->run(write_so_far);
  });

  const LivesResult& result = lives->describe();
  const ExitCode code = result.wrong > 0 ? ExitCode::wrong_data : ExitCode::good;
  job.begin(job.is_root() ? Phase::output : Phase::finishing, "writing the results");
  if (job.is_root()) {
    table_complete = write_stdout(lives_table(config, result) + lives_footer(result)) && table_complete;
    Row row;
    row.row_case = result.operation;
    row.wrong = result.wrongs;
    write_stderr(wrong_text(kAllReduce, row, false));
    files.write(info, result, LivesEnd{local_timestamp(), code});
  }
  return job.agreed_code(code, table_complete && files.complete());
}

int run(const Launch& launch, int argc, char** argv, const WrapBackend& wrap) {
  const CommandLine line = scan_arguments(argc, argv);
  const auto help = [] { return help_text(kProgram, {"-n 20", kAbout, kOwnOptions}); };
  if (const auto code = help_or_version(launch, line.action, help)) return *code;
  relaunch_if_alone(launch, line, argc, argv);
  const auto work = [&](Job& job) {
    const std::optional<ConfigFile> file = agree_on_config_file(job.world(), line.config_file);
    Configured configured;
    collectively(job.world(), "reading the options", [&] {
      configured = configure(line, file, ::getenv);
      check_options(configured);
    });
    configured.config.init_phases = true;
    return run_lives({argv, static_cast<std::size_t>(argc)}, configured.config, wrap, job);
  };
  return run_session(argc, argv, launch, mpi_start(line), work);
}

}  // namespace

int run_comm(int argc, char** argv, const WrapBackend& wrap) {
  const Launch launch = detect_launch();
  return run_before_session(launch, [&] { return run(launch, argc, argv, wrap); });
}

}  // namespace busbar
