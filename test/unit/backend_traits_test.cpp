// Catches: a library whose name in records, options and traits differ, and one that is taken for NCCL or MPI because
// somebody compared names; a record of a library that this busbar does not know and that is read as if it were one.

#include "common/backends/backend_traits.h"

#include "common/base/error.h"
#include "common/base/options.h"

#include <catch2/catch.hpp>

#include <string>

using namespace busbar;

TEST_CASE("every library of the list is found by its name, in the order of the list", "[backends][traits]") {
  std::string choices(name(BackendChoice::automatic));
  for (const BackendTraits* traits : all_backends()) {
    INFO(traits->name);
    choices += "|" + std::string(traits->name);
    CHECK(&traits_of(traits->name) == traits);
    const auto choice = from_word<BackendChoice>(traits->name);
    REQUIRE(choice);
    CHECK(name(*choice) == traits->name);
    CHECK(&traits_of(*choice) == traits);
  }
  CHECK(choices == kBackendChoices);
  CHECK(from_word<BackendChoice>("auto") == BackendChoice::automatic);
  CHECK_FALSE(from_word<BackendChoice>("MPI"));
  CHECK_FALSE(from_word<BackendChoice>(""));
}

TEST_CASE("every library says what sentences, estimates and headers need", "[backends][traits]") {
  for (const BackendTraits* traits : all_backends()) {
    INFO(traits->name);
    CHECK_FALSE(traits->title.empty());
    CHECK_FALSE(traits->measures.empty());
    CHECK_FALSE(traits->iteration_clock.empty());
    CHECK(traits->assumed_busbw > 1e8);
    CHECK(traits->settings.empty() == traits->usual_settings.empty());
  }
}

TEST_CASE("a library that this busbar does not know claims nothing", "[backends][traits]") {
  for (const char* name : {"rccl", "", "NCCL", "nccl "}) {
    const BackendTraits& unknown = traits_of(name);
    CHECK(unknown.memory == MemoryKind::host);
    CHECK_FALSE(unknown.has_ras);
    CHECK(unknown.settings.empty());
  }
}

TEST_CASE("a setting belongs to one library", "[backends][traits]") {
  CHECK(owner_of_setting("ompi.algorithm") == &kMpiTraits);
  CHECK(owner_of_setting("NCCL_ALGO") == &kNcclTraits);
  CHECK(owner_of_setting("nccl.ctas") == &kNcclTraits);
  CHECK(owner_of_setting("UCX_TLS") == nullptr);
  CHECK(owner_of_setting("") == nullptr);
}

TEST_CASE("an unknown --backend is told the choices", "[backends][traits]") {
  const char* const words[] = {"all_reduce_perf", "--backend", "ncl"};
  CHECK_THROWS_WITH(scan_arguments(3, words), Catch::Contains("choose from: auto mpi nccl"));
}
