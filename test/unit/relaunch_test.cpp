// Would catch: a program that starts mpirun that starts the program that starts mpirun, for ever.

#include "common/base/error.h"
#include "common/processes/launcher.h"

#include <catch2/catch.hpp>

#include <cstdlib>

using namespace busbar;

TEST_CASE("A program started by itself that still sees no launcher gives up", "[relaunch][cluster]") {
  setenv("BUSBAR_STARTED_ITSELF", "1", 1);
  char name[] = "all_reduce_perf";
  char* argv[] = {name, nullptr};
  try {
    relaunch_under_mpirun(4, "Open MPI 4.1.4", 1, argv);
    FAIL("it started");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::not_possible);
    CHECK(std::string(e.what()).find("mpirun -n 4 all_reduce_perf") != std::string::npos);
  }
  unsetenv("BUSBAR_STARTED_ITSELF");
}
