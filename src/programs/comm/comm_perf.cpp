#include "programs/comm/comm_perf.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/options.h"
#include "common/base/say.h"
#include "common/base/units.h"
#include "common/job/job.h"
#include "common/job/session_job.h"
#include "common/output/csv_report.h"
#include "common/output/format.h"
#include "common/output/json_report.h"
#include "common/output/report_file.h"
#include "common/output/table.h"
#include "common/processes/comm.h"
#include "common/record/json_values.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace busbar {
namespace {

constexpr std::string_view kProgram = "comm_perf";

/// The benchmarks' options that comm_perf takes.
constexpr std::array<std::string_view, 26> kOwnOptions{
    "nthreads", "ngpus",      "iters",        "warmup_iters", "parallel_init", "timeout",     "output_file",
    "json",     "help",       "sizes",        "config",       "backend",       "mpi-threads", "ranks-per-gpu",
    "csv",      "topology",   "hang-timeout", "inject",       "stat",          "rel-ci",      "max-time",
    "epochs",   "cta_policy", "version",      "launcher",     "meet-key"};

constexpr std::string_view kAbout =
    "Times what programs do with communicators: create, first and next operation (an all_reduce of\n"
    "--sizes, default: 4K), split, dup, shrink, grow, abort, re-create, free. A step that the library\n"
    "lacks is skipped, with the reason. -n is the number of timed life cycles of a communicator, -w that\n"
    "of warm-up cycles before them.";

void check_options(const Configured& configured) {
  for (const Setting& setting : configured.settings) {
    if (contains(kOwnOptions, setting.option->long_name)) continue;
    throw_bad_config(fmt::format("--{} has no meaning for {}: leave it out (--help lists the options)",
                                 setting.option->long_name, kProgram));
  }
  const Config& config = configured.config;
  if (!config.split.empty())
    throw_bad_config(fmt::format("NCCL_TESTS_SPLIT has no meaning for {}: unset it", kProgram));
  if (config.sizes.size() > 1) throw_bad_config("--sizes: give one size, the operation's");
  if (!config.sizes.empty() && config.sizes.front() % sizeof(float) != 0)
    throw_bad_config("--sizes: the operation reduces floats: give a multiple of 4 bytes");
}

/// Table, JSON and CSV, by process 0. The files hold the results so far, whenever the run ends.
class LifecycleFiles {
 public:
  /// Creates the files. Throws Error(bad_config).
  void open(const RunInfo& info) {
    json_ = {info.config.output_file, "-J"};
    StartedFiles started;
    started.add(json_.path());
    csv_ = {info.config.csv, "--csv"};
    started.keep();
  }

  void write(const RunInfo& info, const LifecycleResult& result, const std::optional<LifecycleEnd>& end) {
    const auto cycles = static_cast<std::size_t>(result.cycles);
    json_.write([&] { return lifecycle_json(info, result, end); }, cycles);
    csv_.write([&] { return lifecycle_csv(info, result); }, cycles);
  }

  Lost lost() const {
    Lost lost;
    for (const RewrittenFile* file : {&json_, &csv_}) file->add_lost(lost, "cycle");
    return lost;
  }
  void finish() { json_.finish(); }

  std::string kept(const LifecycleResult& result) const {
    std::vector<std::string> files;
    for (const RewrittenFile* file : {&json_, &csv_})
      if (file->is_there() && file->complete()) files.push_back(file->path());
    return kept_text(counted(result.cycles, "cycle"), files, lost());
  }

 private:
  RewrittenFile json_, csv_;
};

/// One run on an initialized MPI. Collective. Throws AgreedError if all processes fail alike, anything else if the job
/// must be aborted.
ExitCode run_lifecycles(std::span<char*> args, const Config& config, const WrapBackend& wrap, Job& job) {
  const Comm& world = job.world();
  job.configure(config);
  const Collective* const collectives[] = {&kAllReduce};
  JobBackend opened = job.open(config, world, collectives, wrap);
  Backend& backend = *opened.backend;
  const std::unique_ptr<CommunicatorLifecycle> lifecycle = backend.lifecycle(world);
  if (lifecycle == nullptr) {
    throw AgreedError(ExitCode::not_possible, fmt::format("{} does not measure the life cycle of communicators of {}",
                                                          kProgram, backend.traits().title));
  }
  std::vector<RankInfo> local_ranks = describe_local_ranks(backend, world, 0);
  RunInfo info = describe_job(args, std::string(kProgram), config, backend, local_ranks, world);
  job.add_remarks(info, config, std::move(opened.remarks));

  LifecycleFiles files;
  job.begin_files("opening the results");
  on_process0(world, [&] { files.open(info); });
  bool table_complete = !job.is_root() || write_stdout(lifecycle_header(info));
  Backend* const backends[] = {&backend};
  std::optional<Lifecycles> lifecycles;
  // At most once in so many seconds, so that writing takes little of the time however many cycles there are.
  constexpr std::chrono::seconds kApart{1};
  Clock::time_point next = Clock::now();
  const auto write_so_far = [&] {
    if (!job.is_root() || Clock::now() < next) return;
    job.watchdog().begin_step(Phase::output, "writing the results");
    const LifecycleResult& result = lifecycles->describe();
    files.write(info, result, std::nullopt);
    job.report_kept()(files.kept(result));
    next = Clock::now() + kApart;
  };
  job.guarded(job.step(), backends, [&] {
    lifecycles.emplace(job, backend, *lifecycle, info.config, std::move(local_ranks));
    lifecycles->run(write_so_far);
  });

  const LifecycleResult& result = lifecycles->describe();
  const ExitCode code = result.wrong > 0 ? ExitCode::wrong_data : ExitCode::good;
  job.begin_step(job.is_root() ? Phase::output : Phase::finishing, "writing the results");
  if (job.is_root()) {
    table_complete = write_stdout(lifecycle_table(config, result) + lifecycle_footer(result)) && table_complete;
    Row row;
    row.row_case = result.operation;
    row.wrong = result.wrongs;
    write_stderr(wrong_text(kAllReduce, row, false));
    files.write(info, result, LifecycleEnd{local_timestamp(), code});
  }
  files.finish();
  return job.agreed_code(code, say_lost(files.lost(), table_complete));
}

/// `columns`: those between the step's name and the reason why it stopped.
std::string line(const Config& config, std::string_view step, std::string_view stop, const auto&... columns) {
  std::string text = fmt::format("  {:>9}  {:>10}  {:>10}  {:>6}  {:>10}  {:>10}  {:>7}", step, columns...);
  if (config.stat) text += fmt::format("  {:>5}", stop);
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

std::string microseconds(double time_s) { return fit_number(time_s * 1e6, 10); }

std::string step_line(const Config& config, const StepResult& r) {
  if (!r.stats) return line(config, name(r.step), "-", "-", "-", "-", "-", "-", "0");
  const CellStats& stats = *r.stats;
  const std::string ci = stats.interval_s ? fit_number(stats.relative_half_width * 100, 6) : "-";
  return line(config, name(r.step), name(stats.stop), microseconds(r.first_s), microseconds(stats.median_s), ci,
              microseconds(r.least_s), microseconds(r.most_s), r.samples);
}

/// "kernels 1.22, alloc 0.24, ...": the parts that this version of NCCL reports.
std::string parts_text(const InitTimings& t) {
  std::string text;
  for (const auto& [name, part] : kInitPhases)
    if (t.*part >= 0) text += fmt::format("{}{} {:.2f}", text.empty() ? "" : ", ", name, t.*part);
  return text;
}

double median_of(const std::vector<InitTimings>& all, double InitTimings::*part) {
  std::vector<double> values;
  for (const InitTimings& t : all)
    if (t.*part >= 0) values.push_back(t.*part);
  return values.empty() ? -1 : median(values);
}

/// The median of each part; they need not add up.
InitTimings medians(const std::vector<InitTimings>& all) {
  InitTimings t;
  t.total = median_of(all, &InitTimings::total);
  for (const auto& [name, part] : kInitPhases) t.*part = median_of(all, part);
  return t;
}

std::string phases_lines(const StepResult& r) {
  std::string text;
  if (r.first_phases) {
    text += fmt::format("#   first, rank {} by NCCL [s]: {:.2f} = {}\n", r.first_phases->rank, r.first_phases->total,
                        parts_text(*r.first_phases));
  }
  if (!r.phases.empty()) {
    const InitTimings middle = medians(r.phases);
    text += fmt::format("#   medians by NCCL [s]: {:.2f}; {}\n", middle.total, parts_text(middle));
  }
  return text;
}

Json phases_json(const InitTimings& t) {
  Json json{{"rank", t.rank}, {"nranks", t.nranks}, {"total_s", json_number(t.total)}};
  for (const auto& [name, part] : kInitPhases)
    json[std::string(name) + "_s"] = t.*part >= 0 ? json_number(t.*part) : Json(nullptr);
  return json;
}

Json step_json(const Config& config, const StepResult& r) {
  Json json{{"step", name(r.step)}, {"skipped", json_text_or_null(r.skipped)}, {"samples", r.samples}};
  if (!r.stats) return json;
  const CellStats& stats = *r.stats;
  json.update({{"first_s", json_seconds(r.first_s)},
               {"median_s", json_seconds(stats.median_s)},
               {"interval_s", json_seconds(stats.interval_s)},
               {"min_s", json_seconds(r.least_s)},
               {"max_s", json_seconds(r.most_s)},
               {"stop", config.stat ? Json(name(stats.stop)) : Json(nullptr)},
               {"epoch_medians_s", json_seconds(stats.epoch_medians_s)}});
  if (r.first_phases) json["first_phases"] = phases_json(*r.first_phases);
  for (const InitTimings& t : r.phases) json["phases"].push_back(phases_json(t));
  return json;
}

}  // namespace

int run_comm(int argc, char** argv, const WrapBackend& wrap) {
  return run_benchmark(
      argc, argv,
      [] {
        return help_text(kProgram, {"-n 20", kAbout, kOwnOptions});
      },
      [&](Job& job, const Configured& configured) {
        collectively(job.world(), "reading the options", [&] { check_options(configured); });
        Config config = configured.config;
        config.init_phases = true;
        return run_lifecycles({argv, static_cast<std::size_t>(argc)}, config, wrap, job);
      });
}

std::string lifecycle_header(const RunInfo& info) {
  const Config& c = info.config;
  std::string text =
      fmt::format("# busbar version {} backend={} library={}\n", info.version, info.backend, info.library_version);
  text += fmt::format(
      "# Communicators of {} ranks live one after the other: {}, after {} of warm-up\n", info.nranks,
      c.stat ? fmt::format("until the medians are known to +-{:g} %, at most {:g} s", c.rel_ci * 100, c.max_time_s)
             : fmt::format("{} cycles", c.iters),
      c.warmup_iters);
  text += fmt::format("# Operation: all_reduce of {} bytes; each step after a barrier, as its slowest rank took it\n",
                      c.sizes.empty() ? kSmallOperationBytes : c.sizes.front());
  text += job_lines(info);
  text += "# " + line(c, "step", "stop", "first", "median", "+-CI%", "min", "max", "samples").substr(2);
  text += "# " + line(c, "", "", "(us)", "(us)", "(%)", "(us)", "(us)", "").substr(2);
  return text;
}

std::string lifecycle_table(const Config& config, const LifecycleResult& result) {
  std::string text;
  for (const StepResult& r : result.steps) {
    text += step_line(config, r);
    text += phases_lines(r);
  }
  for (const StepResult& r : result.steps)
    if (!r.skipped.empty()) text += fmt::format("# {}: {}\n", name(r.step), without_footer_words(r.skipped));
  return text;
}

std::string lifecycle_footer(const LifecycleResult& result) {
  std::string text = fmt::format("# The job's own communicator: made in {} us, its first operation took {} us\n",
                                 microseconds(result.init.create_s), microseconds(result.init.first_op_s));
  return text +
         fmt::format("# {:<20} : {} {}\n", "Out of bounds values", result.wrong, result.wrong == 0 ? "OK" : "FAILED");
}

std::string lifecycle_json(const RunInfo& info, const LifecycleResult& result, const std::optional<LifecycleEnd>& end) {
  const Config& c = info.config;
  Json json = job_document("communicators", info);
  json["end_time"] = end ? Json(end->time) : Json(nullptr);
  json["operation"] = {{"collective", "all_reduce"},
                       {"nbytes", c.sizes.empty() ? kSmallOperationBytes : c.sizes.front()}};
  json["warmup_cycles"] = c.warmup_iters;
  json["cycles"] = result.cycles;
  json["cycles_per_epoch"] = result.cycles_per_epoch;
  json["stat"] = c.stat ? Json{{"rel_ci", json_number(c.rel_ci)}, {"max_time_s", c.max_time_s}, {"epochs", c.epochs}}
                        : Json(nullptr);
  json["init"] = {{"create_s", json_seconds(result.init.create_s)},
                  {"first_op_s", json_seconds(result.init.first_op_s)}};
  json["steps"] = Json::array();
  for (const StepResult& r : result.steps) json["steps"].push_back(step_json(c, r));
  json["wrong"] = result.wrong;
  json["exit_code"] = end ? Json(static_cast<int>(end->code)) : Json(nullptr);
  return dump_document(json);
}

std::string lifecycle_csv(const RunInfo& info, const LifecycleResult& result) {
  std::string text = "step,nranks,first_us,median_us,ci_low_us,ci_high_us,min_us,max_us,samples,stop,skipped\n";
  for (const StepResult& r : result.steps) {
    text += fmt::format("{},{},", name(r.step), info.nranks);
    if (r.stats) {
      const CellStats& stats = *r.stats;
      const Interval ci = stats.interval_s.value_or(Interval{std::nan(""), std::nan("")});
      for (const double time_s : {r.first_s, stats.median_s, ci.low, ci.high, r.least_s, r.most_s})
        text += csv_microseconds(time_s) + ",";
      text += fmt::format("{},{},", r.samples, info.config.stat ? name(stats.stop) : "");
    } else {
      text += ",,,,,,0,,";
    }
    text += csv_field(r.skipped) + "\n";
  }
  return text;
}

}  // namespace busbar
