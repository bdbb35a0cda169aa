// What these would catch: a failure on one rank that the others never hear of. They would wait in the next collective
// for ever, and 512 GPUs would stand still because one host could not open a file.

#include "backend_fixture.h"
#include "common/processes/comm.h"

#include <catch2/catch.hpp>

using namespace busbar;
using namespace busbar::test;
using Catch::Contains;

TEST_CASE("A failure on one rank becomes the same error on all", "[collectively][seven]") {
  const Comm comm = world();
  const int culprit = comm.size() - 1;
  std::string text;
  int code = 0;
  try {
    collectively(comm, "opening the gate", [&] {
      if (comm.rank() == culprit) throw Error(ExitCode::backend, "the gate is locked");
    });
  } catch (const AgreedError& e) {
    text = e.what();
    code = static_cast<int>(e.code());
  }
  CHECK(code == 3);
  CHECK_THAT(text, Contains("rank " + std::to_string(culprit) + " on "));
  CHECK_THAT(text, Contains("opening the gate: the gate is locked"));
}

TEST_CASE("The lowest failing rank speaks for all", "[collectively]") {
  const Comm comm = world();
  std::string text;
  try {
    collectively(comm, "step", [&] { throw std::runtime_error("I am " + std::to_string(comm.rank())); });
  } catch (const AgreedError& e) {
    text = e.what();
  }
  CHECK_THAT(text, Contains("rank 0 on ") && Contains("I am 0"));
  if (comm.size() > 2) CHECK_THAT(text, Contains("and " + std::to_string(comm.size() - 1) + " more ranks"));
}

TEST_CASE("A bad option that all ranks see blames no rank", "[collectively]") {
  const Comm comm = world();
  std::string text;
  try {
    collectively(comm, "step", [&] { throw Error(ExitCode::bad_config, "-n: must be positive"); });
  } catch (const AgreedError& e) {
    text = e.what();
  }
  CHECK(text == "-n: must be positive");
}

TEST_CASE("Different plans are an error before the first collective", "[collectively]") {
  const Comm comm = world();
  CHECK_NOTHROW(require_same(comm, "the plan", 42));
  bool thrown = false;
  try {
    require_same(comm, "the plan", static_cast<std::uint64_t>(comm.rank()));
  } catch (const AgreedError&) {
    thrown = true;
  }
  CHECK(thrown == (comm.size() > 1));
}

TEST_CASE("Texts of any length reach rank 0 in rank order", "[comm][seven]") {
  const Comm comm = world();
  const std::vector<std::string> all = comm.gather(std::string(comm.rank(), 'x'));
  CHECK(all.size() == (comm.rank() == 0 ? static_cast<std::size_t>(comm.size()) : 0));
  for (std::size_t r = 0; r < all.size(); ++r) CHECK(all[r] == std::string(r, 'x'));
  CHECK(comm.broadcast(comm.rank() == comm.size() - 1 ? "long text" : "", comm.size() - 1) == "long text");
}
