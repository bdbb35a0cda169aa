#include "common/backends/backend_traits.h"
#include "common/backends/open_backend.h"
#include "common/base/records.h"
#include "common/job/job.h"
#include "common/mpi/collectively.h"
#include "common/mpi/session.h"
#include "driver/accept/accept_cell.h"
#include "driver/accept/accept_engine.h"
#include "driver/accept/accept_merge.h"
#include "driver/accept/accept_network.h"
#include "driver/accept/read_accept_plan.h"
#include "driver/doctor/doctor_gather.h"
#include "driver/locate/locate_counters.h"
#include "driver/locate/locate_run.h"
#include "driver/locate/slow_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

namespace busbar {
namespace {

/// "NVIDIA H200 x 8", "host memory".
std::string devices_text(const std::map<std::string, int>& devices) {
  std::string text;
  for (const auto& [name, count] : devices) {
    const bool counts = name != "host memory";
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", name, counts ? fmt::format(" x {}", count) : "");
  }
  return text;
}

/// The job's hosts with their ranks and devices, in the order of their lowest ranks; complete on process 0. Collective.
std::vector<AcceptResult::Host> describe_hosts(const Comm& world, const Backend& backend) {
  const std::vector<int> local(backend.local_ranks().begin(), backend.local_ranks().end());
  std::string packed;
  for (std::size_t i = 0; i < local.size(); ++i) {
    const DeviceInfo device = backend.device(static_cast<int>(i));
    packed += pack_record({hostname(), std::to_string(local[i]), device.name, device.id});
  }
  std::vector<AcceptResult::Host> hosts;
  std::map<std::string, std::map<std::string, int>> devices;
  std::map<std::string, std::vector<std::string>> ids;
  for (const std::string& of_process : world.gather(packed)) {
    for (const std::vector<std::string>& f : unpack_records(of_process)) {
      auto host = std::find_if(hosts.begin(), hosts.end(), [&](const auto& h) { return h.name == f.at(0); });
      if (host == hosts.end()) host = hosts.insert(hosts.end(), {f.at(0), {}, {}});
      host->ranks.push_back(std::stoi(f.at(1)));
      // Several ranks may share a GPU.
      std::vector<std::string>& seen = ids[f.at(0) + "\n" + f.at(2)];
      if (std::find(seen.begin(), seen.end(), f.at(3)) != seen.end()) continue;
      seen.push_back(f.at(3));
      ++devices[f.at(0)][f.at(2)];
    }
  }
  for (AcceptResult::Host& host : hosts) host.device = devices_text(devices[host.name]);
  return hosts;
}

AcceptResult::Located located_of(LocateRun&& run) {
  AcceptResult::Located located = std::move(run.located);
  for (const SlowRank& slow : run.ranks.slow) {
    located.slow_ranks.push_back({slow.rank, slow.host, slow.outcome, describe(slow)});
  }
  for (std::string& why : run.ranks.skipped) located.notes.push_back(std::move(why));
  return located;
}

AcceptResult::Located not_located(std::string why) {
  AcceptResult::Located located;
  located.finding.outcome = Outcome::skip;
  located.finding.reason = std::move(why);
  return located;
}

/// `locate` as accept runs it: which host (or rank, where all are on one host) is slow. Collective; complete on process
/// 0.
AcceptResult::Located locate_pairs(Job& job, const AcceptOptions& options) {
  const Comm& world = job.world();
  const bool shared = world.max(std::int64_t{!job.oversubscribed().empty()}) > 0;
  if (on_one_host(world) && shared) {
    return not_located("one host, and more ranks than cores on it: the scheduler chooses who is slow");
  }
  job.begin(Phase::initialization, "pairs: opening the communicator");
  Config config;
  for (const Setting& setting : options.line.settings) setting.option->set(config, setting.text);
  const OpenedBackend opened = open_backend(config, world, world);
  const auto watched = job.watchdog().attach(*opened.backend);
  // The same on all processes: a finding without a search.
  if (const std::optional<std::string> why = why_no_search(*opened.backend)) return not_located(*why);
  LocateOptions search;
  if (config.seed != 0) search.search.seed = config.seed;
  return located_of(run_search(job, *opened.backend, config, search, nullptr));
}

/// Steps by all ranks of this job together; process 0 writes.
class RankSteps : public StepRunner {
 public:
  RankSteps(const AcceptOptions& options, Job& job)
      : options_(options), job_(job), world_(job.world()), context_{job, options, !options.part.empty()} {}

  double agree(double mine) const override { return world_.max(job_.is_root() ? mine : 0); }
  void on_root(const std::function<void()>& work) const override { on_process0(world_, work); }
  void enter(const std::string& step) override { job_.begin(Phase::finishing, step); }

  void open(AcceptResult& result) override {
    if (!job_.oversubscribed().empty()) result.remarks.push_back(job_.oversubscribed());
    Config config = result.plan.cells.empty() ? Config{} : result.plan.cells.front().config;
    Config of_all;  // --hang-timeout and --inject are the command line's alone
    for (Config* each : {&config, &of_all}) {
      for (const Setting& setting : options_.line.settings) setting.option->set(*each, setting.text);
    }
    job_.configure(of_all);
    {
      std::vector<const Collective*> collectives;
      for (const PlanCell& cell : result.plan.cells) collectives.push_back(cell.collective);
      const OpenedJobBackend opened = job_.open(config, world_, collectives);
      result.backend = opened.backend->traits().name;
      result.library = opened.backend->library_version();
      result.hosts = describe_hosts(world_, *opened.backend);
      result.remarks.insert(result.remarks.end(), opened.remarks.begin(), opened.remarks.end());
    }
    for (std::string& remark : job_.remarks(config)) result.remarks.push_back(std::move(remark));
    const std::vector<std::string> domains = on_gpus(result) ? nvlink_domains(world_) : std::vector<std::string>{};
    on_root([&] { result.network = result.hosts.size() > 1 ? network_of(probe_this_machine(), domains) : ""; });
    counters_.emplace(world_);
  }

  /// A plan that expects GPUs fails on host memory: there is nothing to measure then. Every process opened the same
  /// backend.
  bool can_measure(const AcceptResult& result) const override { return !result.plan.needs_gpus || on_gpus(result); }

  std::vector<std::string> run(AcceptResult& result, const std::vector<AcceptStep>& pending, int repetition,
                               double left_s) override {
    const AcceptStep& step = pending.front();
    tell(fmt::format("{}{}", step.id, repetition > 0 ? fmt::format(", repetition {}", repetition) : ""));
    if (step.stage == Stage::doctor) {
      job_.begin(Phase::initialization, "doctor");
      result.doctor = gather_doctor(world_);
    } else if (step.stage == Stage::pairs) {
      locate(result);
    } else {
      measure(result, step, repetition, left_s);
    }
    job_.watchdog().rest();
    if (repetition == 0 || is_part()) result.done.push_back(step.id);
    return {step.id};
  }

  bool can_locate(const AcceptResult& result) const override { return can_measure(result) && world_.size() > 1; }
  void locate(AcceptResult& result) override { add_located(result, locate_pairs(job_, options_)); }

  void close(AcceptResult& result) override {
    enter("reading error counters");
    std::vector<DoctorRow> moved = counters_->moved();
    std::move(moved.begin(), moved.end(), std::back_inserter(result.counters));
    result.counters_read = true;
  }

 private:
  bool is_part() const { return !options_.part.empty(); }
  static bool on_gpus(const AcceptResult& result) { return traits_of(result.backend).memory == MemoryKind::gpu; }

  void measure(AcceptResult& result, const AcceptStep& step, int repetition, double left_s) {
    const PlanCell& cell = result.plan.cells.at(static_cast<std::size_t>(step.cell));
    const std::string why = why_not_here(cell, traits_of(result.backend));
    CellResults measured;
    if (why.empty()) {
      measured = measure_cell(context_, cell, step.stage, repetition, left_s);
    } else {
      measured.skipped.push_back({cell.name, step.stage, "all", "", "", why});
    }
    std::move(measured.cells.begin(), measured.cells.end(), std::back_inserter(result.cells));
    if (repetition > 0) return;
    std::move(measured.skipped.begin(), measured.skipped.end(), std::back_inserter(result.skipped));
  }

  void tell(const std::string& text) const {
    if (!job_.is_root() || is_part()) return;
    fmt::print(stderr, "busbar: {}\n", text);
    std::fflush(stderr);
  }

  const AcceptOptions& options_;
  Job& job_;
  const Comm& world_;
  AcceptJobContext context_;
  std::optional<SearchCounters> counters_;  ///< from before the first step on
};

AcceptPlan agree_on_accept_plan(const Comm& world, const AcceptOptions& options) {
  std::string text;
  on_process0(world, [&] { text = read_plan_text(options.plan_file); });
  text = world.broadcast(text, 0);
  return collectively_get(world, "reading the plan", [&] { return checked_plan(text, options); });
}

}  // namespace

ExitCode run_accept_job(std::span<char*> args, const AcceptOptions& options, Job& job) {
  AcceptPlan plan = agree_on_accept_plan(job.world(), options);
  RankSteps ranks(options, job);
  if (!options.part.empty()) return run_acceptance_part(args, options, std::move(plan), ranks);
  const ExitCode code = run_acceptance(args, options, std::move(plan), ranks);
  job.watchdog().rest();
  return code;
}

}  // namespace busbar
