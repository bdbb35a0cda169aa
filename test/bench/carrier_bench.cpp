// What carries a job's control messages, and what that costs (carrier_bench.py): `carrier_bench BEGUN` on several ranks
// of one host, whatever starts them. BEGUN: when that began [s since 1970]. Rank 0 prints the seconds from BEGUN and
// from main to where the work begins, and of 1000 barriers one after the other the median time, and the median and the
// 95th percentile of their skew: from the first rank that leaves to the last.

#include "common/job/session_job.h"
#include "common/processes/comm.h"
#include "common/watch/limits.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using Time = std::chrono::steady_clock;

double seconds(auto duration) { return std::chrono::duration<double>(duration).count(); }

double quantile(std::vector<double> values, double part) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

}  // namespace

int main(int argc, char** argv) {
  using namespace busbar;
  constexpr std::size_t kWarmups = 100, kBarriers = 1000;
  const Time::time_point begun = Time::now();
  return run_session(argc, argv, detect_launch(), {kAutomaticLimit}, [&](Job& job) {
    const Comm& world = job.world();
    world.barrier();
    const double in_main_s = seconds(Time::now() - begun);
    const double since_begun_s = seconds(std::chrono::system_clock::now().time_since_epoch()) - std::atof(argv[1]);
    for (std::size_t i = 0; i < kWarmups; ++i) world.barrier();
    std::vector<double> left_s{seconds(Time::now().time_since_epoch())};
    for (std::size_t i = 0; i < kBarriers; ++i) {
      world.barrier();
      left_s.push_back(seconds(Time::now().time_since_epoch()));
    }
    std::vector<double> took_s, skew_s;
    for (std::size_t i = 1; i < left_s.size(); ++i) {
      took_s.push_back(left_s[i] - left_s[i - 1]);
      skew_s.push_back(world.max(left_s[i]) - world.min(left_s[i]));
    }
    if (world.rank() == 0) {
      std::printf("%.6f %.6f %.9f %.9f %.9f\n", since_begun_s, in_main_s, quantile(took_s, 0.5), quantile(skew_s, 0.5),
                  quantile(skew_s, 0.95));
    }
    return ExitCode::good;
  });
}
