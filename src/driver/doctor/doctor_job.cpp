#include "common/job/before_session.h"
#include "common/job/session_job.h"
#include "common/mpi/collectively.h"
#include "common/mpi/launcher.h"
#include "driver/doctor/doctor_command.h"
#include "driver/doctor/doctor_gather.h"
#include "driver/doctor/doctor_options.h"

#include <cstdint>

namespace busbar {

int run_doctor_job(int argc, char** argv) {
  const Launch launch = detect_launch();
  DoctorOptions options;
  // busbar has read them before it became this program: they are good.
  if (const int code = run_before_session(launch,
                                          [&] {
                                            options = read_doctor_options(argc, argv);
                                            return 0;
                                          });
      code != 0) {
    return code;
  }
  constexpr double kTimeout = 120;  // a node that does not answer is found by the watchdog
  return run_session(argc, argv, launch, kTimeout, [&](Job& job) {
    const Comm& world = job.world();
    job.set_step("looking at the nodes");
    const std::vector<NodeReport> nodes = gather_doctor(world);
    std::int64_t code = 0;
    on_process0(world, [&] { code = conclude_doctor(options, nodes); });
    return static_cast<ExitCode>(world.max(code));
  });
}

}  // namespace busbar
