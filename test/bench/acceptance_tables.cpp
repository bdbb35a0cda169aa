// How often does `accept` fail the healthy, and how often does it find the slow? The tables of
// docs/evidence/statistics.md: launches of a simulated cluster, judged by the real judge.
//
//     acceptance_tables [TRIALS]

#include "common/base/embedded_file.h"
#include "unit/acceptance_rates.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace {

using namespace busbar;
using rates::Cluster;
using rates::verdicts;
using rates::Verdicts;

void print(const std::string& what, const Verdicts& v) {
  fmt::print("{:52} FAIL {:5.1f} WARN {:5.1f} PASS {:5.1f} INCONCLUSIVE {:5.1f}; named {:5.1f}\n", what, 100 * v.fail,
             100 * v.warn, 100 * v.pass, 100 * v.inconclusive, 100 * v.named);
  std::fflush(stdout);
}

void baselines(const AcceptPlan& plan, const std::string& name, int trials) {
  for (const auto& [before, now] :
       {std::pair(0, 1), std::pair(1, 1), std::pair(4, 1), std::pair(8, 1), std::pair(4, 4), std::pair(10, 10)}) {
    print(fmt::format("{}, healthy, {} + {} launches", name, before, now), verdicts(plan, {}, before, now, trials));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int trials = argc > 1 ? std::max(1, std::atoi(argv[1])) : 2000;
  const AcceptPlan ten = rates::ten_rows();
  baselines(ten, "ten rows, fail margin 10 %", trials);
  for (const auto& [rate, before, now] : {std::tuple(0.8, 10, 10), std::tuple(0.7, 4, 4), std::tuple(0.6, 8, 1),
                                          std::tuple(0.8, 1, 1), std::tuple(0.6, 1, 1), std::tuple(0.5, 1, 1)}) {
    print(fmt::format("ten rows, {} of the rate, {} + {} launches", rate, before, now),
          verdicts(ten, {.rate = rate}, before, now, trials));
  }
  for (const EmbeddedFile& file : embedded_plans()) {
    if (file.text.find("\nstages:") == std::string_view::npos) continue;  // no plan
    const AcceptPlan plan = read_accept_plan(std::string(file.text), std::string(file.name));
    baselines(plan, std::string(file.name), trials);
    for (const int hosts : {3, 4, 8, 16, 64, 512}) {
      const int some = std::max(1, hosts < 64 ? trials : 16 * trials / hosts);
      print(fmt::format("{}, healthy, {} hosts", file.name, hosts), verdicts(plan, {.hosts = hosts}, 0, 1, some));
      for (const double rate : {0.7, 0.8}) {
        print(fmt::format("{}, one of {} hosts at {}", file.name, hosts, rate),
              verdicts(plan, {.hosts = hosts, .slow_hosts = 1, .slow_rate = rate}, 0, 1, some));
      }
    }
  }
  return 0;
}
