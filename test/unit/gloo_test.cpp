// Catches: an algorithm that Gloo has not and that is taken, or taken for a collective where it means nothing; a
// reduction that reads what it has just written; a missing or foreign libbusbar_gloo.so that is told without a remedy.

#include "common/backends/gloo/gloo_backend.h"
#include "common/base/error.h"
#include "driver/compare/variants.h"

#include <catch2/catch.hpp>

#include <array>
#include <cstdint>

using namespace busbar;
using Catch::Contains;

namespace {

template <class Work>
std::string refusal(ExitCode code, const Work& work) {
  try {
    work();
  } catch (const Error& e) {
    CHECK(e.code() == code);
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("Gloo's algorithms are those of all_reduce", "[gloo][compare]") {
  using Names = std::vector<std::string>;
  CHECK(gloo_algorithms(kAllReduce, "all") == Names{"ring", "bcube"});
  CHECK(gloo_algorithms(kAllReduce, "bcube") == Names{"bcube"});
  CHECK_THAT(refusal(ExitCode::bad_config, [] { gloo_algorithms(kAllReduce, "tree"); }),
             Contains("no algorithm 'tree'; choose from: ring bcube all"));
  CHECK_THAT(refusal(ExitCode::bad_config, [] { gloo_algorithms(kBroadcast, "ring"); }),
             Contains("one algorithm for broadcast"));
  CHECK(owner_of_setting("gloo.algorithm") == &kGlooTraits);
  CHECK(rereads_per_communicator("gloo.algorithm"));
  CHECK_FALSE(has_environment("gloo.algorithm"));
}

TEST_CASE("compare varies gloo.algorithm on Gloo alone, and in one job", "[gloo][compare]") {
  const std::vector<Varied> varied{parse_vary("gloo.algorithm=all")};
  const auto variants = make_variants(varied, kAllReduce, kGlooTraits);
  REQUIRE(variants.size() == 3);
  CHECK(variants[0].label == "default");
  CHECK(variants[1].label == "ring");
  CHECK(variants[2].label == "bcube");
  CHECK_THAT(refusal(ExitCode::bad_config, [&] { make_variants(varied, kAllReduce, kMpiTraits); }),
             Contains("gloo.algorithm is Gloo's") && Contains("add --backend gloo"));
  CHECK_THAT(refusal(ExitCode::bad_config, [&] { variant_environment(variants[1], kAllReduce); }),
             Contains("without --launch"));
}

TEST_CASE("Gloo's reductions take their result's place as an argument", "[gloo]") {
  // c may be a or b (gloo/allreduce.h).
  const auto int32 = gloo_reduction(DType::int32, Op::sum).reduce;
  std::array<std::int32_t, 3> a{1, 2, 3};
  const std::array<std::int32_t, 3> b{10, 20, 30};
  int32(a.data(), a.data(), b.data(), a.size());
  CHECK(a == std::array<std::int32_t, 3>{11, 22, 33});
  int32(a.data(), b.data(), a.data(), a.size());
  CHECK(a == std::array<std::int32_t, 3>{21, 42, 63});
  // 1.0, 2.0, 3.0 in bfloat16.
  const auto bfloat16 = gloo_reduction(DType::bfloat16, Op::sum).reduce;
  std::array<std::uint16_t, 1> x{0x3F80};
  const std::array<std::uint16_t, 1> y{0x4000};
  std::array<std::uint16_t, 1> z{};
  bfloat16(z.data(), x.data(), y.data(), 1);
  CHECK(z[0] == 0x4040);
  bfloat16(x.data(), x.data(), y.data(), 1);
  CHECK(x[0] == 0x4040);
  x[0] = 0x3F80;
  bfloat16(x.data(), y.data(), x.data(), 1);
  CHECK(x[0] == 0x4040);
}

TEST_CASE("Gloo's reductions have both forms for every dtype, and none for what Gloo lacks", "[gloo]") {
  for (const DType dtype : kAllDTypes) {
    INFO(name(dtype));
    for (const Op op : {Op::sum, Op::prod, Op::max, Op::min}) {
      CHECK(gloo_reduction(dtype, op).reduce != nullptr);
      CHECK(gloo_reduction(dtype, op).into != nullptr);
    }
    CHECK(gloo_reduction(dtype, Op::avg).reduce == nullptr);
    CHECK(gloo_reduction(dtype, Op::mulsum).into == nullptr);
  }
  // Signed numbers compare as such; products of narrow ones wrap.
  std::int8_t x = -3;
  const std::int8_t y = 100;
  gloo_reduction(DType::int8, Op::min).reduce(&x, &x, &y, 1);
  CHECK(x == -3);
  gloo_reduction(DType::int8, Op::prod).reduce(&x, &x, &y, 1);
  CHECK(x == -44);  // -300 + 256
}

TEST_CASE("A module that cannot be had is told with the remedy", "[gloo]") {
  // No module lies beside the test program.
  CHECK_THAT(refusal(ExitCode::not_possible, [] { load_gloo(); }),
             Contains("there is no libbusbar_gloo.so in") && Contains("libgloo-dev") && Contains("--backend mpi"));
  CHECK_THAT(refusal(ExitCode::not_possible, [] { load_gloo("/nonexistent/libbusbar_gloo.so"); }),
             Contains("cannot be loaded") && Contains("libgloo0"));
  CHECK_THAT(refusal(ExitCode::not_possible, [] { load_gloo(BUSBAR_TUNER_LIBRARY); }), Contains("from another build"));
}
