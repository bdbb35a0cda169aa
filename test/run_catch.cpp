// Catch2's runner, compiled once for all programs of tests: it takes longer than fifty tests.
#define CATCH_CONFIG_RUNNER
#include "run_catch.h"

#include <catch2/catch.hpp>

#include <cstdlib>

int run_catch(int argc, char** argv) { return Catch::Session().run(argc, argv); }

bool more() { return std::getenv("BUSBAR_MORE") != nullptr; }
