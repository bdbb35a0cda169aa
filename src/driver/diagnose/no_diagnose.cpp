// `busbar diagnose` in a build without RE2 or libarchive.
#include "driver/command/subcommand.h"
#include "driver/diagnose/diagnose_inputs.h"

namespace busbar {

int run_diagnose(int /*argc*/, char** /*argv*/) { return refuse_without_archives("diagnose"); }

std::optional<Finding> finding_in(std::string_view /*output*/) { return std::nullopt; }

}  // namespace busbar
