// What `busbar triage` does in a build without RE2 or libarchive: it says so.
#include "common/base/error.h"
#include "common/base/say.h"
#include "driver/command/subcommand.h"

namespace busbar {

int run_triage(int /*argc*/, char** /*argv*/) {
  say("error: this build has no RE2 or no libarchive, which triage needs: install their headers and configure again");
  return static_cast<int>(ExitCode::not_possible);
}

}  // namespace busbar
