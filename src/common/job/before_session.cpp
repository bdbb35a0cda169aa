#include "common/job/before_session.h"

#include "common/base/error.h"
#include "common/base/say.h"
#include "common/processes/child.h"

namespace busbar {
int run_before_session(const Launch& launch, const std::function<int()>& work) {
  // Before MPI is up, the launcher's rank decides who reports; what all ranks find alike is reported once.
  const bool is_root = launch.rank <= 0;
  try {
    return work();
  } catch (const Error& e) {
    // The silent ranks leave with 0: a launcher ends the job at the first failure, which must not come before the
    // message.
    if (!is_root) return static_cast<int>(ExitCode::good);
    say("error: {}", e.what());
    return static_cast<int>(e.code());
  } catch (const std::exception& e) {
    say("error: {}", e.what());
    return static_cast<int>(ExitCode::internal);
  }
}

int run_with_children(const Launch& launch, const std::function<int()>& work) {
  int interrupted = 0;
  const int code = run_before_session(launch, [&] {
    try {
      return work();
    } catch (const Interrupted& e) {
      interrupted = e.signal();
      write_stderr(interrupted_line(e.signal(), e.what()));
      return 0;
    }
  });
  if (interrupted != 0) end_by_signal(interrupted);
  return code;
}

}  // namespace busbar
