// `busbar diagnose` in a build without RE2 or libarchive.
#include "driver/command/subcommand.h"

namespace busbar {

int run_diagnose(int /*argc*/, char** /*argv*/) { return refuse_without_archives("diagnose"); }

}  // namespace busbar
