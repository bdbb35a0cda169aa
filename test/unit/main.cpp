// The runner of the unit tests: compiled once, because it takes longer than all the tests together.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
