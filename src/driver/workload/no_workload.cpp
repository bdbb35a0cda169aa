// `busbar workload` in a build without RE2 or libarchive.
#include "driver/command/subcommand.h"

namespace busbar {

int run_workload(int /*argc*/, char** /*argv*/) { return refuse_without_archives("workload"); }

}  // namespace busbar
