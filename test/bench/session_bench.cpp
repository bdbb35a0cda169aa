// What a rank that only starts and ends MPI needs, without a watchdog and with it (session_bench.py):
// `session_bench bare|watched` under mpirun; rank 0 prints the seconds from main to where the work begins, and from its
// end to where main returns.

#include "common/processes/session.h"

#include "common/job/session_job.h"
#include "common/watch/limits.h"

#include <chrono>
#include <cstdio>
#include <string_view>

int main(int argc, char** argv) {
  using namespace busbar;
  using Time = std::chrono::steady_clock;
  const bool watched = argc == 2 && std::string_view(argv[1]) == "watched";
  const Launch launch = detect_launch();
  const Time::time_point begun = Time::now();
  Time::time_point between;
  const auto work = [&](const Comm& world) {
    world.barrier();
    between = Time::now();
  };
  int code = 0;
  if (watched) {
    code = run_session(argc, argv, launch, {kAutomaticLimit}, [&](Job& job) {
      work(job.world());
      return ExitCode::good;
    });
  } else {
    Session session(&argc, &argv);
    work(session.world());
  }
  const std::chrono::duration<double> start = between - begun, end = Time::now() - between;
  if (launch.rank <= 0) std::printf("%.6f %.6f\n", start.count(), end.count());
  return code;
}
