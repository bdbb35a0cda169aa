// Would show: an acceptance that is slow, or needs much memory, on process 0 of a large job: what is judged, written
// and read there grows with hosts x cells and ranks x cells. Argument: hosts of eight ranks. Counters: MB of the JSON
// that is rewritten after each step, and of the HTML report.

#include "common/record/accept_result.h"
#include "common/statistics/random.h"
#include "driver/accept/judge_acceptance.h"
#include "driver/accept/platform.h"
#include "driver/accept/read_accept_plan.h"
#include "driver/report/report_html.h"
#include "driver/report/report_parts.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

namespace {

using namespace busbar;

constexpr int kRanksPerHost = 8;
constexpr int kEpochs = 40;

constexpr const char* kPlan = R"(schema: 1
stages: [per-host, whole]
defaults: {criteria: {host-spread: {fail: 20%}, rank-spread: {warn: 25%}, time-spread: {warn: 50%}}}
cells:
  - {name: inside, collective: all_reduce, stages: per-host, sizes: [8, 1M, 16M, 1G], placement: out}
  - {name: all, collective: all_reduce, stages: whole, minbytes: 8, maxbytes: 1G, stepfactor: 4, placement: out}
)";

Cell cell(const PlanCell& planned, Stage stage, const std::string& scope, std::uint64_t nbytes, int first, int nranks,
          Random& random) {
  Cell m;
  m.cell = planned.name;
  m.stage = stage;
  m.scope = scope;
  m.collective = "all_reduce";
  m.dtype = "float";
  m.op = "sum";
  m.nbytes = nbytes;
  m.nranks = nranks;
  m.nhosts = std::max(1, nranks / kRanksPerHost);
  m.median_s = 1e-5 + static_cast<double>(nbytes) / 100e9;
  for (int e = 0; e < kEpochs; ++e) m.epoch_medians_s.push_back(m.median_s * (1 + 0.02 * random.unit()));
  m.interval_s = Interval{0.99 * m.median_s, 1.01 * m.median_s};
  m.busbw = static_cast<double>(nbytes) / m.median_s / 1e9;
  m.busbw_interval = Interval{0.99 * m.busbw, 1.01 * m.busbw};
  m.wrong = 0;
  m.stop = StopReason::ci;
  m.samples = 4000;
  for (int r = 0; r < nranks; ++r) {
    m.ranks.push_back({first + r, fmt::format("node{}", (first + r) / kRanksPerHost), m.median_s, 1e-7 * random.unit(),
                       1.0 / nranks});
  }
  return m;
}

AcceptResult result_of(int hosts) {
  AcceptResult result;
  result.plan = read_accept_plan(kPlan, "plan.yaml");
  result.backend = "mpi";
  result.end_time = "2026-01-01 00:00:00";
  Random random(1);
  for (int h = 0; h < hosts; ++h) {
    AcceptResult::Host host{fmt::format("node{}", h), {}, "host memory"};
    for (int r = 0; r < kRanksPerHost; ++r) host.ranks.push_back(h * kRanksPerHost + r);
    result.hosts.push_back(std::move(host));
  }
  for (int h = 0; h < hosts; ++h) {
    for (const std::uint64_t nbytes : {8ull, 1ull << 20, 16ull << 20, 1ull << 30}) {
      result.cells.push_back(cell(result.plan.cells[0], Stage::per_host, result.hosts[static_cast<std::size_t>(h)].name,
                                  nbytes, h * kRanksPerHost, kRanksPerHost, random));
    }
  }
  for (std::uint64_t nbytes = 8; nbytes <= 1ull << 30; nbytes *= 4) {
    result.cells.push_back(cell(result.plan.cells[1], Stage::whole, "all", nbytes, 0, hosts * kRanksPerHost, random));
  }
  result.done = {"per-host/inside", "whole/all"};
  return result;
}

void judge(benchmark::State& state) {
  const AcceptResult measured = result_of(static_cast<int>(state.range(0)));
  const std::vector<Platform> platforms = shipped_platforms();
  for (auto _ : state) {
    AcceptResult result = measured;
    judge_acceptance(result, platforms, nullptr);
    benchmark::DoNotOptimize(accept_text(result));
  }
}

void write_and_read(benchmark::State& state) {
  const AcceptResult result = result_of(static_cast<int>(state.range(0)));
  std::size_t nbytes = 0;
  for (auto _ : state) {
    const std::string text = accept_json(result);
    nbytes = text.size();
    benchmark::DoNotOptimize(read_accept_json(text, "bench"));
  }
  state.counters["JSON_MB"] = static_cast<double>(nbytes) / 1e6;
}

void report(benchmark::State& state) {
  AcceptResult result = result_of(static_cast<int>(state.range(0)));
  judge_acceptance(result, shipped_platforms(), nullptr);
  std::size_t nbytes = 0;
  for (auto _ : state) {
    ReportData data;
    add_accept(data, result);
    const std::string text = report_html(data);
    nbytes = text.size();
    benchmark::DoNotOptimize(text.data());
  }
  state.counters["HTML_MB"] = static_cast<double>(nbytes) / 1e6;
}

BENCHMARK(judge)->Arg(8)->Arg(64)->Arg(512)->Unit(benchmark::kMillisecond);
BENCHMARK(write_and_read)->Arg(8)->Arg(64)->Arg(512)->Unit(benchmark::kMillisecond);
BENCHMARK(report)->Arg(8)->Arg(64)->Arg(512)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
