// Would catch: a sweep that never ends (-f 1.0001, sizes near 2^63), rows in another order than nccl-tests', a row that
// memory cannot hold, and two ranks with different plans that meet in different collectives and hang.

#include "common/measure/plan.h"

#include "common/base/error.h"
#include "null_backend.h"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace busbar;
using Catch::Contains;
using Catch::Matchers::StartsWith;

namespace {

/// As many ranks as told, no avg, no root 1, no sendrecv in place.
class FakeBackend : public NullBackend {
 public:
  using NullBackend::NullBackend;

  std::optional<std::string> why_unsupported(const Operation& op) const override {
    if (op.op == Op::avg) return "no average";
    if (op.problem.root == 1) return "no root 1";
    if (op.in_place && op.collective->id == CollectiveId::sendrecv) return "no replacing";
    return std::nullopt;
  }
};

const Backend::MemoryLimit kPlenty{1ull << 50, "plenty"};
const Traffic kNoMatrix;

Config range(std::uint64_t first, std::uint64_t last, double factor) {
  Config config;
  config.minbytes = first;
  config.maxbytes = last;
  config.stepfactor = factor;
  return config;
}

std::vector<std::uint64_t> sizes(const Config& config) { return sweep_sizes(config, config.maxbytes); }

Plan plan_of(const Config& config, const Collective& collective, int nranks = 4,
             const Backend::MemoryLimit& limit = kPlenty, const Traffic& traffic = kNoMatrix) {
  return make_plan(config, collective, FakeBackend(nranks), traffic, limit);
}

template <typename Work>
std::string error_of(ExitCode code, Work work) {
  try {
    work();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a factor above 1 multiplies, anything else adds", "[measure][plan]") {
  CHECK(sizes(range(8, 64, 2)) == std::vector<std::uint64_t>{8, 16, 32, 64});
  CHECK(sizes(range(8, 63, 2)) == std::vector<std::uint64_t>{8, 16, 32});
  CHECK(sizes(range(8, 100, 1.5)) == std::vector<std::uint64_t>{8, 12, 18, 27, 40, 60, 90});
  Config additive = range(8, 40, 1);
  additive.stepbytes = 16;
  CHECK(sizes(additive) == std::vector<std::uint64_t>{8, 24, 40});
  additive.stepfactor = 0;
  CHECK(sizes(additive) == std::vector<std::uint64_t>{8, 24, 40});
  CHECK(sizes(Config{}) == std::vector<std::uint64_t>{33554432});
}

TEST_CASE("the users' usual command has 8192 sizes", "[measure][plan]") {
  const auto all = sizes(range(1ull << 20, 8ull << 30, 1));
  CHECK(all.size() == 8192);
  CHECK(all.front() == 1ull << 20);
  CHECK(all.back() == 8ull << 30);
}

TEST_CASE("every sweep ends, also where numbers do", "[measure][plan]") {
  CHECK(sizes(range(1ull << 40, 1ull << 43, 2)) ==
        std::vector<std::uint64_t>{1ull << 40, 1ull << 41, 1ull << 42, 1ull << 43});
  CHECK(sizes(range(1, ~0ull, 2)).size() == 64);
  CHECK(sizes(range(~0ull - 1, ~0ull, 2)).size() == 1);
  CHECK(sizes(range(8, 100, 1e300)) == std::vector<std::uint64_t>{8});
  CHECK(sizes(range(8, 12, 1.0000001)) == std::vector<std::uint64_t>{8, 9, 10, 11, 12});
  Config wide = range(1, ~0ull, 1);
  wide.stepbytes = ~0ull;
  CHECK(sizes(wide).size() == 1);
  CHECK_THAT(error_of(ExitCode::bad_config, [] { sizes(range(8, 1ull << 40, 1.0000001)); }), Contains("use -f 2"));
}

TEST_CASE("a list of sizes is swept in rising order up to the cap", "[measure][plan]") {
  Config config;
  config.sizes = {4096, 8, 1024};
  CHECK(sweep_sizes(config, 1ull << 40) == std::vector<std::uint64_t>{8, 1024, 4096});
  CHECK(sweep_sizes(config, 1024) == std::vector<std::uint64_t>{8, 1024});
}

TEST_CASE("rows come by dtype, op, root and size", "[measure][plan]") {
  Config config = range(8, 16, 2);
  config.dtypes = {DType::float32, DType::int8};
  config.ops = {Op::max, Op::sum};
  const Plan plan = plan_of(config, kAllReduce);
  REQUIRE(plan.cases.size() == 8);
  std::string order;
  for (const Case& c : plan.cases) {
    order += std::string(name(c.dtype)) + " " + std::string(name(*c.op)) + " " + std::to_string(c.nbytes) + "/" +
             std::to_string(c.problem.count) + ", ";
  }
  CHECK(order ==
        "float max 8/2, float max 16/4, float sum 8/2, float sum 16/4, "
        "int8 max 8/8, int8 max 16/16, int8 sum 8/8, int8 sum 16/16, ");
  CHECK(plan.skipped.empty());
}

TEST_CASE("roots are visited where there are roots", "[measure][plan]") {
  Config config = range(64, 64, 2);
  config.all_roots = true;
  const Plan plan = plan_of(config, kBroadcast, 3);
  REQUIRE(plan.cases.size() == 2);
  CHECK(plan.cases[0].root == 0);
  CHECK(plan.cases[1].root == 2);
  CHECK(plan.cases[1].problem.root == 2);
  CHECK_FALSE(plan.cases[0].op.has_value());
  REQUIRE(plan.skipped.size() == 1);
  CHECK(plan.skipped[0].root == 1);
  CHECK(plan.skipped[0].reason == "no root 1");
  CHECK(plan_of(config, kAllReduce, 3).cases.size() == 1);
  config.all_roots = false;
  config.root = 3;
  CHECK(error_of(ExitCode::bad_config, [&] { plan_of(config, kBroadcast, 3); }) ==
        "-r 3: there are only 3 ranks, numbered from 0");
}

TEST_CASE("chunked collectives keep the rows that are too small", "[measure][plan]") {
  // 4 ranks, floats: a chunk is a multiple of 16 bytes, so sizes below 64 have none.
  const Plan plan = plan_of(range(16, 128, 2), kAllGather);
  REQUIRE(plan.cases.size() == 4);
  CHECK(plan.cases[0].nbytes == 0);
  CHECK(plan.cases[0].problem.count == 0);
  CHECK(plan.cases[0].requested_bytes == 16);
  CHECK(plan.cases[1].nbytes == 0);
  CHECK(plan.cases[2].nbytes == 64);
  CHECK(plan.cases[2].problem.count == 4);
  CHECK(plan.cases[3].problem.count == 8);
}

TEST_CASE("what cannot run is left out once, with the reason", "[measure][plan]") {
  Config config = range(64, 1024, 2);
  config.ops = {Op::sum, Op::avg};
  const Plan plan = plan_of(config, kAllReduce);
  CHECK(plan.cases.size() == 5);
  REQUIRE(plan.skipped.size() == 1);
  CHECK(plan.skipped[0].op == Op::avg);
  CHECK(plan.skipped[0].reason == "no average");
  const Plan odd = plan_of(range(64, 64, 2), kHypercube, 3);
  CHECK(odd.cases.empty());
  CHECK_THAT(odd.skipped.at(0).reason, Contains("power-of-two"));
  config.placement = Placements::in;
  CHECK(plan_of(config, kBarrier).skipped.at(0).reason == "barrier has no in-place form");
  CHECK(plan_of(config, kSendrecv).skipped.at(0).reason == "no replacing");
  CHECK(plan_of(config, kAlltoall).skipped.empty());
  CHECK(plan_of(config, kAllGather).skipped.empty());
}

TEST_CASE("rows that a library can run out of place alone are measured so, and the plan says why", "[measure][plan]") {
  const Plan alone = plan_of(range(64, 1024, 2), kSendrecv);
  CHECK(alone.cases.size() == 5);
  CHECK(alone.why_out_alone == "no replacing");
  CHECK_FALSE(has_in_place(alone));
  CHECK(has_in_place(plan_of(range(64, 1024, 2), kAlltoall)));
  CHECK_FALSE(has_in_place(plan_of(range(64, 1024, 2), kBarrier)));
  CHECK(plan_of(range(64, 1024, 2), kBarrier).why_out_alone.empty());
}

TEST_CASE("memory lowers the last size and says how", "[measure][plan]") {
  // Two buffers, each with 2 x 4096 bytes of guards: 2 x 1000 bytes are left of 18384.
  const Backend::MemoryLimit limit{18384, "18 KB free"};
  const Plan plan = plan_of(range(8, 4096, 2), kAllReduce, 4, limit);
  CHECK(plan.maxbytes == 1000);
  CHECK(plan.cases.back().nbytes == 512);
  CHECK(plan.cap_arithmetic ==
        "Reducing maxBytes to 1000 due to memory limitation: two buffers of 4 KiB and their guards need 24 KiB, a rank "
        "may use 17.95 KiB (18 KB free)");
  const Plan fits = plan_of(range(8, 1000, 2), kAllReduce, 4, limit);
  CHECK(fits.maxbytes == 1000);
  CHECK(fits.cap_arithmetic.empty());
  Config shifted = range(8, 4096, 2);
  shifted.unalign = 2;  // 16 bytes in each buffer, for the widest type
  CHECK(plan_of(shifted, kAllReduce, 4, limit).maxbytes == 984);
}

TEST_CASE("memory lowers a list of sizes too", "[measure][plan]") {
  Config config;
  config.sizes = {8, 1000, 4096};
  config.minbytes = 8;
  config.maxbytes = 4096;
  const Plan plan = plan_of(config, kAllReduce, 4, {18384, "18 KB free"});
  CHECK(plan.cases.size() == 2);
  CHECK_THAT(plan.cap_arithmetic, StartsWith("Reducing maxBytes to 1000"));
}

TEST_CASE("a first size above the memory is not possible", "[measure][plan]") {
  for (std::size_t bytes : {std::size_t{0}, std::size_t{16384}, std::size_t{18382}}) {
    const std::string text = error_of(ExitCode::not_possible, [&] {
      plan_of(range(1000, 4096, 2), kAllReduce, 4, {bytes, "hardly any free"});
    });
    CHECK_THAT(
        text,
        StartsWith("not enough memory for the first size: two buffers of 1000 B and their guards need 17.95 KiB"));
    CHECK_THAT(text, Contains("(hardly any free); lower -b"));
  }
}

TEST_CASE("a traffic matrix is one row whatever the sizes are", "[measure][plan]") {
  const Traffic matrix = parse_traffic_matrix("0 64\n32 0\n", 1);
  const Plan plan = plan_of(range(8, 1024, 2), kAlltoallv, 2, kPlenty, matrix);
  REQUIRE(plan.cases.size() == 1);
  CHECK(plan.cases[0].nbytes == 64);
  CHECK(plan.cases[0].problem.count == 0);
  CHECK_THAT(error_of(ExitCode::not_possible,
                      [&] {
                        plan_of(range(8, 1024, 2), kAlltoallv, 2, {16400, "few"}, matrix);
                      }),
             Contains("alltoallv matrix"));
  Config config = range(8, 1024, 2);
  config.all_roots = true;
  const Plan by_root = plan_of(config, kGatherv, 2, kPlenty, matrix);
  CHECK(by_root.cases.at(0).nbytes == 32);  // what ranks have for rank 0
  CHECK(by_root.cases.size() == 1);         // the backend here takes no root 1
  const Plan small = plan_of(range(8, 1024, 2), kAlltoallv, 3, kPlenty, matrix);
  CHECK(small.cases.empty());
  CHECK_THAT(small.skipped.at(0).reason, Contains("fewer than the 3 ranks"));
}

TEST_CASE("a barrier is one row whatever sizes, types and memory there are", "[measure][plan]") {
  Config config = range(8, 1024, 2);
  config.dtypes = {DType::int32, DType::half};
  const Plan plan = plan_of(config, kBarrier, 4, {100, "hardly any free"});
  REQUIRE(plan.cases.size() == 1);
  CHECK(plan.cases[0].requested_bytes == 0);
  CHECK(plan.cases[0].nbytes == 0);
  CHECK(plan.cases[0].dtype == DType::int32);
  CHECK(estimate_time_s(plan, config, 1e9) > 0);
  CHECK_THAT(dry_run_text(plan, config, kPlenty, 4, 1e9), Contains("barrier"));
}

TEST_CASE("more rows than anyone can want are refused", "[measure][plan]") {
  Config config = range(8, 8ull << 20, 1);
  config.stepbytes = 16;
  config.dtypes = {kAllDTypes.begin(), kAllDTypes.end()};
  CHECK_THAT(error_of(ExitCode::bad_config, [&] { plan_of(config, kAllReduce); }),
             StartsWith("more than 1000000 rows"));
}

TEST_CASE("no buffer is larger than the requested size, for any collective and number of ranks", "[measure][plan]") {
  Config config = range(1, 1ull << 40, 3);
  config.dtypes = {DType::int8, DType::half, DType::float64};
  for (CollectiveId id : kAllCollectives) {
    for (int nranks : {1, 2, 3, 7, 64, 1000}) {
      for (const Case& c : plan_of(config, collective(id), nranks).cases) {
        if (c.nbytes > c.requested_bytes) FAIL(collective(id).name << ' ' << nranks << ' ' << c.requested_bytes);
      }
    }
  }
}

TEST_CASE("equal plans have equal digests, others do not", "[measure][plan]") {
  const Config config = range(8, 64, 2);
  const Plan plan = plan_of(config, kAllReduce);
  CHECK(digest(plan, config) == digest(plan_of(config, kAllReduce), config));
  std::vector<std::uint64_t> digests{digest(plan, config), digest(plan_of(config, kReduce), config),
                                     digest(plan_of(config, kAllReduce, 8), config),
                                     digest(plan_of(range(8, 32, 2), kAllReduce), config)};
  const auto with = [&](auto change) {
    Config other = config;
    change(other);
    digests.push_back(digest(plan_of(other, kAllReduce), other));
  };
  with([](Config& c) { c.iters = 21; });
  with([](Config& c) { c.warmup_iters = 0; });
  with([](Config& c) { c.check = 0; });
  with([](Config& c) { c.run_cycles = 0; });
  with([](Config& c) { c.placement = Placements::out; });
  with([](Config& c) { c.dtypes = {DType::int32}; });
  with([](Config& c) { c.ops = {Op::max}; });
  with([](Config& c) { c.per_iter_timing = true; });
  with([](Config& c) { c.blocking = 1; });
  with([](Config& c) { c.nonblocking = true; });
  with([](Config& c) { c.timeout_s = 1; });
  with([](Config& c) { c.agg_iters = 2; });
  with([](Config& c) { c.cudagraph = 1; });
  std::sort(digests.begin(), digests.end());
  CHECK(std::adjacent_find(digests.begin(), digests.end()) == digests.end());
  const Traffic a = parse_traffic_matrix("0 64\n32 0\n", 1);
  const Traffic b = parse_traffic_matrix("0 64\n48 0\n", 1);
  CHECK(digest(plan_of(config, kAlltoallv, 2, kPlenty, a), config) !=
        digest(plan_of(config, kAlltoallv, 2, kPlenty, b), config));
}

TEST_CASE("a long plan warns before it starts", "[measure][plan]") {
  const Config usual = range(1ull << 20, 8ull << 30, 1);
  CHECK_THAT(plan_warning(plan_of(usual, kAllReduce, 16), usual, 5e9).value(),
             StartsWith("plan: 8192 rows, about ") && Catch::Matchers::EndsWith("; did you mean -f 2?"));
  const Config small = range(8, 64ull << 20, 2);
  CHECK_FALSE(plan_warning(plan_of(small, kAllReduce), small, 5e9).has_value());
  const Config long_one = range(64ull << 30, 64ull << 30, 2);
  const std::string text = plan_warning(plan_of(long_one, kAllReduce), long_one, 5e9).value();
  CHECK_THAT(text, StartsWith("plan: 1 row, about ") && !Contains("-f 2"));
  Config skipped = usual;
  skipped.ops = {Op::avg};
  CHECK_FALSE(plan_warning(plan_of(skipped, kAllReduce), skipped, 5e9).has_value());
}

TEST_CASE("the estimate counts operations, bytes and passes over the data", "[measure][plan]") {
  Config config = range(5000000000, 5000000000, 2);
  config.warmup_iters = 1;
  config.iters = 3;
  config.check = 1;
  config.placement = Placements::out;
  config.dtypes = {DType::int8};
  // 2 ranks: factor 1. 5 operations of 1 s and 20 us; 3 x 2 passes of 1 s.
  CHECK(estimate_time_s(plan_of(config, kAllReduce, 2), config, 5e9) == Approx(11.0001));
  config.placement = Placements::both;
  CHECK(estimate_time_s(plan_of(config, kAllReduce, 2), config, 5e9) == Approx(22.0002));
  CHECK(estimate_time_s(plan_of(config, kSendrecv, 2), config, 5e9) == Approx(11.0001));
}

TEST_CASE("a dry run shows rows, reasons, memory and time", "[measure][plan]") {
  Config config = range(8, 16, 2);
  config.ops = {Op::sum, Op::avg};
  const Backend::MemoryLimit limit{1ull << 30, "2 GiB free / 2 ranks"};
  const std::string text = dry_run_text(plan_of(config, kAllReduce, 4, limit), config, limit, 2, 5e9);
  CHECK_THAT(text, StartsWith("plan: all_reduce on 4 ranks, 2 rows of 2 sizes\n"));
  CHECK_THAT(text, Contains("           8             2     float     sum      -1\n"));
  CHECK_THAT(text, Contains("skipped: float avg: no average\n"));
  CHECK_THAT(text,
             Contains("memory: 16.03 KiB per rank (two buffers of 16 B with guards), 32.06 KiB per host of 2 ranks\n"));
  CHECK_THAT(text, Contains("limit:  1 GiB per rank (2 GiB free / 2 ranks)\n"));
  CHECK_THAT(text, Contains("time:   about ") && Contains("assuming a busbw of 5 GB/s\n"));
  const Config usual = range(1ull << 20, 8ull << 30, 1);
  CHECK_THAT(dry_run_text(plan_of(usual, kAllReduce), usual, kPlenty, 4, 5e9), Contains("(8142 more rows)"));
  config.ops = {Op::avg};
  CHECK_THAT(dry_run_text(plan_of(config, kAllReduce), config, limit, 2, 5e9), Contains("nothing to run"));
}
