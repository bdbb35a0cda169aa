// Would catch: a number without its source or kind, and a table that crashes or is half read.

#include "common/base/error.h"
#include "driver/accept/platform.h"

#include <catch2/catch.hpp>

using namespace busbar;
using Catch::Contains;
using Catch::Matchers::StartsWith;

namespace {

std::string complaint(const std::string& text) {
  try {
    read_platform(text, "p.yaml");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_config);
    return error.what();
  }
  return "no error";
}

std::string with_entry(const std::string& entry) { return "gpu: X1\ngpus-per-node: 8\nexpect:\n  - {" + entry + "}\n"; }

}  // namespace

TEST_CASE("a platform's numbers need size, kind and source", "[accept][platform]") {
  const Platform p = read_platform(
      with_entry("collective: all_reduce, nodes: 2, sizes: [1G, 2G], busbw: 3, kind: threshold, source: me"),
      "folder/x1.yaml");
  CHECK(p.name == "x1");
  REQUIRE(p.entries.size() == 1);
  CHECK(p.entries[0].nodes_max == 2);
  CHECK(p.entries[0].nbytes_min == 1u << 30);
  CHECK(p.entries[0].nbytes_max == 2u << 30);
  CHECK_THAT(complaint(with_entry("collective: all_reduce, sizes: 1G, busbw: 3, kind: measured")),
             StartsWith("p.yaml:4:") && Contains("without source"));
  CHECK_THAT(complaint(with_entry("collective: all_reduce, sizes: 1G, busbw: 3, source: me")),
             Contains("without kind"));
  CHECK_THAT(complaint(with_entry("collective: all_reduce, busbw: 3, kind: measured, source: me")), Contains("sizes"));
  CHECK_THAT(complaint(with_entry("kind: guessed")), Contains("measured threshold"));
  CHECK_THAT(complaint(with_entry("collective: allreduce")), Contains("did you mean all_reduce?"));
  CHECK_THAT(complaint(with_entry("busbw: 0")), Contains("above 0"));
  CHECK_THAT(complaint(with_entry("sizes: [2G, 1G]")), Contains("above the last"));
  CHECK_THAT(complaint(with_entry("network: infiniband")), Contains("ib roce"));
  CHECK_THAT(complaint(with_entry("node: 3")), Contains("did you mean nodes?"));
  CHECK_THAT(complaint("gpu: X\n"), Contains("gpus-per-node"));
  CHECK_THAT(complaint("gpus-per-node: 3\n"), Contains("gpu:"));
  CHECK_THAT(complaint("gpu: X\ngpus-per-node: 8\nexpect: 3\n"), StartsWith("p.yaml:3:"));
  CHECK_THAT(complaint("gpu: X\ngpus-per-node: 8\nceilings: [{algorithm: RING, busbw: 3}]\n"),
             Contains("without source"));
  CHECK_THAT(complaint("[1]"), StartsWith("p.yaml:1:"));
}
