// What these would catch: a wrong count, offset or factor in a collective's definition. Data and check come from the
// same definition, so such an error would not show as wrong data; it would show as a wrong bandwidth in every table.

#include "collectives/collective.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <map>
#include <set>

using namespace busbar;

namespace {

const Traffic kGenerated;

Problem problem_of(const Collective& c, std::size_t nbytes, int nranks, std::size_t w, const Traffic& t = kGenerated) {
  return {c.count(nbytes / w, nranks, w, &t), w, nranks, 0, &t};
}

}  // namespace

TEST_CASE("Counts and sizes follow the contract's table", "[collectives]") {
  // 1000 B of float on 4 ranks: c = 250; base = floor(250/4) = 62, rounded down to a multiple of 16/4 = 4: 60.
  struct Expected {
    const Collective& c;
    std::size_t count, send, recv, nbytes;
  };
  const std::vector<Expected> table{
      {kAllReduce, 250, 250, 250, 1000},
      {kBroadcast, 250, 250, 250, 1000},
      {kReduce, 250, 250, 250, 1000},
      {kSendrecv, 250, 250, 250, 1000},
      {kAllGather, 60, 60, 240, 960},
      {kGather, 60, 60, 240, 960},
      {kHypercube, 60, 60, 240, 960},
      {kReduceScatter, 60, 240, 60, 960},
      {kScatter, 60, 240, 60, 960},
      {kAlltoall, 60, 240, 240, 960},
      // Of the 960 B by distance from the root: 0, 1/6, 2/6 and 3/6, that is 0, 40, 80 and 120 floats.
      {kAllGatherv, 60, 120, 240, 960},
      {kGatherv, 60, 120, 240, 960},
      {kReduceScatterv, 60, 240, 120, 960},
      {kScatterv, 60, 240, 120, 960},
      {kPingpong, 250, 250, 250, 1000},
  };
  for (const Expected& e : table) {
    INFO(e.c.name);
    const Problem p = problem_of(e.c, 1000, 4, 4);
    CHECK(p.count == e.count);
    CHECK(e.c.extents(p).send == e.send);
    CHECK(e.c.extents(p).recv == e.recv);
    CHECK(message_bytes(e.c, p) == e.nbytes);
  }
}

TEST_CASE("Chunked collectives below 16 bytes per rank have size zero", "[collectives]") {
  for (const Collective* c : {&kAllGather, &kReduceScatter, &kAlltoall, &kGather, &kScatter, &kHypercube}) {
    CHECK(problem_of(*c, 63, 4, 1).count == 0);
    CHECK(problem_of(*c, 64, 4, 1).count == 16);
    CHECK(problem_of(*c, 64, 4, 8).count == 2);
  }
}

TEST_CASE("Bus factors are those of nccl-tests", "[collectives]") {
  const std::map<std::string_view, double> at_four{
      {"all_reduce", 1.5}, {"all_gather", 0.75},  {"reduce_scatter", 0.75},  {"broadcast", 1},  {"reduce", 1},
      {"alltoall", 0.75},  {"alltoallv", 0.75},   {"gather", 0.75},          {"scatter", 0.75}, {"sendrecv", 1},
      {"hypercube", 1},    {"all_gatherv", 0.75}, {"reduce_scatterv", 0.75}, {"gatherv", 0.75}, {"scatterv", 0.75},
      {"barrier", 1},      {"pingpong", 1}};
  for (CollectiveId id : kAllCollectives) {
    const Collective& c = collective(id);
    INFO(c.name);
    CHECK(c.bus_factor(4) == at_four.at(c.name));
  }
}

TEST_CASE("A barrier moves nothing, whatever size is asked for", "[collectives]") {
  const Problem p = problem_of(kBarrier, 1 << 20, 4, 4);
  CHECK(p.count == 0);
  CHECK(message_bytes(kBarrier, p) == 0);
  CHECK(kBarrier.algorithm_bytes(p) == 0);
  CHECK(kBarrier.expected(p, 1).empty());
  for (CollectiveId id : kAllCollectives) CHECK(collective(id).moves_data == (id != CollectiveId::barrier));
}

TEST_CASE("Hypercube's bandwidth leaves out the rank's own block", "[collectives]") {
  const Problem p = problem_of(kHypercube, 1024, 4, 4);  // base = 64
  CHECK(kHypercube.algorithm_bytes(p) == 64 * 3 * 4);
  CHECK(kAllGather.algorithm_bytes(p) == 64 * 4 * 4);
}

TEST_CASE("Hypercube wants a power of two", "[collectives]") {
  CHECK(kHypercube.why_not(problem_of(kHypercube, 1024, 8, 4)).empty());
  CHECK(kHypercube.why_not(problem_of(kHypercube, 1024, 6, 4)) ==
        "hypercube needs a power-of-two number of ranks, not 6");
}

TEST_CASE("Expected blocks of small cases, written out by hand", "[collectives]") {
  Problem p{.count = 16, .elem_size = 1, .nranks = 3, .root = 1, .traffic = &kGenerated};
  CHECK(kAllReduce.expected(p, 2) == std::vector<Block>{{0, 16, kReduction, 0}});
  CHECK(kReduceScatter.expected(p, 2) == std::vector<Block>{{0, 16, kReduction, 32}});
  CHECK(kAllGather.expected(p, 0) == std::vector<Block>{{0, 16, 0, 0}, {16, 16, 1, 0}, {32, 16, 2, 0}});
  CHECK(kAlltoall.expected(p, 2) == std::vector<Block>{{0, 16, 0, 32}, {16, 16, 1, 32}, {32, 16, 2, 32}});
  CHECK(kScatter.expected(p, 2) == std::vector<Block>{{0, 16, 1, 32}});
  CHECK(kBroadcast.expected(p, 0) == std::vector<Block>{{0, 16, 1, 0}});
  CHECK(kSendrecv.expected(p, 0) == std::vector<Block>{{0, 16, 2, 0}});
  CHECK(kReduce.expected(p, 1) == std::vector<Block>{{0, 16, kReduction, 0}});
  CHECK(kReduce.expected(p, 0).empty());
  CHECK(kGather.expected(p, 0).empty());
  CHECK(kGather.expected(p, 1).size() == 3);
}

TEST_CASE("In-place offsets are the rank's own block", "[collectives]") {
  const Problem p{.count = 16, .elem_size = 1, .nranks = 3, .root = 0, .traffic = &kGenerated};
  CHECK(kAllGather.in_place(p, 2).send == 32);
  CHECK(kAllGather.in_place(p, 2).recv == 0);
  CHECK(kReduceScatter.in_place(p, 2).recv == 32);
  CHECK(kScatter.in_place(p, 1).recv == 16);
  CHECK(kGather.in_place(p, 1).send == 16);
  CHECK(kAllReduce.in_place(p, 2).recv == 0);
  CHECK(kPingpong.in_place == nullptr);
  CHECK(kBarrier.in_place == nullptr);
}

TEST_CASE("What every collective counts and where its ranks' parts lie in one buffer, in elements", "[collectives]") {
  std::string text;
  for (CollectiveId id : kAllCollectives) {
    const Collective& c = collective(id);
    const Problem p = problem_of(c, 1000, 4, 4);
    text += fmt::format("{}{}: {} B", c.name, root_words(c, 3), c.algorithm_bytes(p));
    for (int rank = 0; c.in_place != nullptr && rank < 4; ++rank) {
      text += fmt::format(" {}/{}", c.in_place(p, rank).send, c.in_place(p, rank).recv);
    }
    text += '\n';
  }
  CHECK(text == R"(all_reduce: 1000 B 0/0 0/0 0/0 0/0
all_gather: 960 B 0/0 60/0 120/0 180/0
reduce_scatter: 960 B 0/0 0/60 0/120 0/180
broadcast root 3: 1000 B 0/0 0/0 0/0 0/0
reduce root 3: 1000 B 0/0 0/0 0/0 0/0
alltoall: 960 B 0/0 0/0 0/0 0/0
alltoallv: 960 B 0/0 0/0 0/0 0/0
gather root 3: 960 B 0/0 60/0 120/0 180/0
scatter root 3: 960 B 0/0 0/60 0/120 0/180
sendrecv: 1000 B 0/0 0/0 0/0 0/0
hypercube: 720 B 0/0 60/0 120/0 180/0
all_gatherv: 960 B 0/0 0/0 120/0 200/0
reduce_scatterv: 960 B 0/0 0/0 0/40 0/120
gatherv root 3: 960 B 0/0 0/0 120/0 200/0
scatterv root 3: 960 B 0/0 0/0 0/40 0/120
barrier: 0 B
pingpong round 3: 1000 B
)");
}

TEST_CASE("Alltoallv of one rank is its own message, in multiples of 16 bytes", "[collectives][alltoallv]") {
  const Problem alone = problem_of(kAlltoallv, 1000, 1, 4);
  CHECK(message_bytes(kAlltoallv, alone) == 992);
  CHECK(kAlltoallv.expected(alone, 0) == std::vector<Block>{{0, 248, 0, 0}});
}

TEST_CASE("Generated alltoallv traffic grows with the distance", "[collectives][alltoallv]") {
  // 4 ranks, 96 elements of 1 B each (count 96, total 384 B): shares 0, 1/6, 2/6, 3/6 of 384 = 0, 64, 128, 192.
  const Problem p{.count = 96, .elem_size = 1, .nranks = 4, .root = 0, .traffic = &kGenerated};
  CHECK(alltoallv_count(p, 1, 1) == 0);
  CHECK(alltoallv_count(p, 1, 2) == 64);
  CHECK(alltoallv_count(p, 1, 3) == 128);
  CHECK(alltoallv_count(p, 1, 0) == 192);
  CHECK(kAlltoallv.extents(p).send == 384);
  CHECK(alltoallv_send_offset(p, 1, 3) == 192 + 0 + 64);
}

TEST_CASE("Two ranks, equal shares and a symmetric matrix send as much one way as the other",
          "[collectives][alltoallv]") {
  const auto symmetric = [](const Traffic& traffic, int n) {
    return alltoallv_is_symmetric({.count = 96, .elem_size = 4, .nranks = n, .root = 0, .traffic = &traffic});
  };
  CHECK(symmetric(kGenerated, 1));
  CHECK(symmetric(kGenerated, 2));
  CHECK_FALSE(symmetric(kGenerated, 3));
  CHECK_FALSE(symmetric(kGenerated, 4));
  Traffic equal;
  equal.spread = 0;
  CHECK(symmetric(equal, 5));
  CHECK(symmetric(parse_traffic_matrix("16 160 32\n160 0 64\n32 64 48\n", 1.0), 3));
  const Traffic last = parse_traffic_matrix("16 160 32\n160 0 64\n32 48 48\n", 1.0);
  CHECK_FALSE(symmetric(last, 3));
  CHECK(symmetric(last, 2));
}

TEST_CASE("Alltoallv's blocks tile every receive buffer and every send buffer exactly once",
          "[collectives][alltoallv]") {
  Traffic half;
  half.spread = 0.5;
  const Traffic matrix = parse_traffic_matrix("0 160 32\n16 0 64\n320 0 48\n", 1.0);
  for (const Traffic* traffic : std::vector<const Traffic*>{&kGenerated, &half, &matrix}) {
    for (int n = 1; n <= (traffic->from_matrix() ? 3 : 9); ++n) {
      const Problem p{.count = 48, .elem_size = 4, .nranks = n, .root = 0, .traffic = traffic};
      std::map<int, std::set<std::size_t>> sent;
      for (int rank = 0; rank < n; ++rank) {
        std::size_t at = 0;
        for (const Block& b : kAlltoallv.expected(p, rank)) {
          CHECK(b.at == at);
          at += b.count;
          CHECK(b.from == alltoallv_send_offset(p, b.source, rank));
          for (std::size_t i = 0; i < b.count; ++i) CHECK(sent[b.source].insert(b.from + i).second);
        }
        CHECK(at <= kAlltoallv.extents(p).recv);
      }
      for (const auto& [source, elements] : sent) CHECK(*elements.rbegin() + 1 == elements.size());
    }
  }
}

TEST_CASE("Blocks follow the distance between the root and their rank, written out by hand", "[collectives]") {
  // As above: 0, 40, 80 and 120 floats at distances 0 to 3. To root 1 rank 0 has distance 1, and from it distance 3.
  const Problem p{.count = 60, .elem_size = 4, .nranks = 4, .root = 1, .traffic = &kGenerated};
  const std::vector<Block> to_1{{0, 40, 0, 0}, {40, 0, 1, 0}, {40, 120, 2, 0}, {160, 80, 3, 0}};
  const std::vector<Block> to_0{{0, 0, 0, 0}, {0, 120, 1, 0}, {120, 80, 2, 0}, {200, 40, 3, 0}};
  CHECK(kGatherv.expected(p, 1) == to_1);
  CHECK(kGatherv.expected(p, 2).empty());
  CHECK(kScatterv.expected(p, 0) == std::vector<Block>{{0, 120, 1, 0}});
  CHECK(kScatterv.expected(p, 1) == std::vector<Block>{{0, 0, 1, 120}});
  CHECK(kScatterv.expected(p, 3) == std::vector<Block>{{0, 80, 1, 160}});
  // These have no root: as gathered to and scattered from rank 0.
  for (int rank = 0; rank < 4; ++rank) CHECK(kAllGatherv.expected(p, rank) == to_0);
  CHECK(kReduceScatterv.expected(p, 0) == std::vector<Block>{{0, 0, kReduction, 0}});
  CHECK(kReduceScatterv.expected(p, 2) == std::vector<Block>{{0, 80, kReduction, 40}});

  CHECK(kGatherv.in_place(p, 3).send == 160);
  CHECK(kAllGatherv.in_place(p, 3).send == 200);
  CHECK(kScatterv.in_place(p, 3).recv == 160);
  CHECK(kReduceScatterv.in_place(p, 3).recv == 120);
  const auto moved = [&](const Collective& c, int rank) {
    const Extents e = extents_of(c, p, rank);
    return std::vector<std::size_t>{e.send, e.recv};
  };
  CHECK(moved(kGatherv, 1) == std::vector<std::size_t>{0, 240});
  CHECK(moved(kGatherv, 2) == std::vector<std::size_t>{120, 0});
  CHECK(moved(kScatterv, 1) == std::vector<std::size_t>{240, 0});
  CHECK(moved(kScatterv, 2) == std::vector<std::size_t>{0, 40});
  CHECK(moved(kAllGatherv, 0) == std::vector<std::size_t>{0, 240});
  CHECK(moved(kReduceScatterv, 3) == std::vector<std::size_t>{240, 120});
}

TEST_CASE("With a matrix blocks are a column of it to gather and a row to scatter", "[collectives]") {
  const Traffic matrix = parse_traffic_matrix("0 160 32\n16 0 64\n320 0 48\n", 1.0);
  const Problem p{.count = 0, .elem_size = 4, .nranks = 3, .root = 2, .traffic = &matrix};
  const auto blocks = [&](const Collective& c) {
    return std::vector<std::size_t>{c.block(p, 0), c.block(p, 1), c.block(p, 2)};
  };
  CHECK(blocks(kGatherv) == std::vector<std::size_t>{8, 16, 12});
  CHECK(blocks(kScatterv) == std::vector<std::size_t>{80, 0, 12});
  CHECK(blocks(kAllGatherv) == std::vector<std::size_t>{0, 4, 80});
  CHECK(blocks(kReduceScatterv) == std::vector<std::size_t>{0, 40, 8});
  CHECK(message_bytes(kGatherv, p) == 144);
  CHECK(message_bytes(kAllGatherv, p) == 336);
  CHECK(kScatterv.algorithm_bytes(p) == 368);
  CHECK(kReduceScatterv.algorithm_bytes(p) == 192);
  for (const Collective* c : {&kGatherv, &kScatterv, &kAllGatherv, &kReduceScatterv}) {
    CHECK(problem_of(*c, 1000, 3, 4, matrix).count == 0);
    CHECK(c->why_not({.nranks = 4, .traffic = &matrix}) == "the alltoallv matrix has 3 rows, fewer than the 4 ranks");
  }
}

TEST_CASE("With equal shares a collective of blocks is the plain one", "[collectives]") {
  Traffic equal;
  equal.spread = 0;
  const std::vector<std::pair<const Collective*, const Collective*>> pairs{
      {&kAllGatherv, &kAllGather}, {&kReduceScatterv, &kReduceScatter}, {&kGatherv, &kGather}, {&kScatterv, &kScatter}};
  for (const auto& [uneven, plain] : pairs) {
    INFO(plain->name);
    const Problem p{.count = 48, .elem_size = 4, .nranks = 3, .root = 2, .traffic = &equal};
    CHECK(message_bytes(*uneven, p) == message_bytes(*plain, p));
    CHECK(uneven->algorithm_bytes(p) == plain->algorithm_bytes(p));
    for (int rank = 0; rank < 3; ++rank) {
      CHECK(uneven->expected(p, rank) == plain->expected(p, rank));
      CHECK(uneven->in_place(p, rank).send == plain->in_place(p, rank).send);
      CHECK(uneven->in_place(p, rank).recv == plain->in_place(p, rank).recv);
    }
  }
}

TEST_CASE("A traffic matrix is read with its scale, in multiples of 16 bytes", "[collectives][alltoallv]") {
  const Traffic t = parse_traffic_matrix("100 200\n50.5 1e3\n", 2.0);
  CHECK(t.dim == 2);
  CHECK(t.bytes == std::vector<std::uint64_t>{192, 400, 96, 2000});
}

TEST_CASE("A matrix serves as many ranks as it has rows, and fewer", "[collectives][alltoallv]") {
  const Traffic two = parse_traffic_matrix("0 16\n32 48\n", 1);
  for (const int nranks : {1, 2}) CHECK(kAlltoallv.why_not({.nranks = nranks, .traffic = &two}).empty());
  CHECK(kAlltoallv.why_not({.nranks = 3, .traffic = &two}) ==
        "the alltoallv matrix has 2 rows, fewer than the 3 ranks");
  CHECK_THROWS_WITH(parse_traffic_matrix("1 2\n", 1), Catch::Contains("1 rows and 2 columns"));
  CHECK_THROWS_WITH(parse_traffic_matrix("1\n2\n", 1), Catch::Contains("2 rows and 1 columns"));
  CHECK(parse_traffic_matrix("4611686018427387000", 1).bytes.front() > 4611686018427380000);
  CHECK_THROWS_WITH(parse_traffic_matrix("4611686018427387904", 1), Catch::Contains("too large"));  // 2^62
}

TEST_CASE("A bad traffic matrix says what is wrong and where", "[collectives][alltoallv]") {
  CHECK_THROWS_WITH(parse_traffic_matrix("", 1), "the matrix is empty");
  CHECK_THROWS_WITH(parse_traffic_matrix("1 2\n3\n", 1), "row 2 has 1 columns, row 1 has 2");
  CHECK_THROWS_WITH(parse_traffic_matrix("1 2\n", 1), "the matrix has 1 rows and 2 columns; it must be square");
  CHECK_THROWS_WITH(parse_traffic_matrix("1 x\n3 4\n", 1), "'x' is not a number in row 1, column 2");
  CHECK_THROWS_WITH(parse_traffic_matrix("1 2\n-3 4\n", 1), "'-3' is not a non-negative number in row 2, column 1");
  CHECK_THROWS_WITH(parse_traffic_matrix("1 2\n3 nan\n", 1), "'nan' is not a non-negative number in row 2, column 2");
  CHECK_THROWS_WITH(parse_traffic_matrix("1e30 2\n3 4\n", 1), "'1e30' is too large in row 1, column 1");
}

TEST_CASE("Names and aliases of dtypes are known in any case, others are not", "[collectives]") {
  CHECK(parse_dtype("half") == DType::half);
  CHECK(parse_dtype("FP16") == DType::half);
  CHECK(parse_dtype("bf16") == DType::bfloat16);
  CHECK(parse_dtype("fp8") == DType::f8e4m3);
  CHECK(parse_dtype("e5m2") == DType::f8e5m2);
  CHECK_FALSE(parse_dtype("floaty"));
  CHECK_FALSE(parse_dtype(""));
  CHECK_FALSE(parse_dtype(" "));
  CHECK_FALSE(parse_dtype("fp16 float16"));
  CHECK_FALSE(parse_dtype("fp"));
  for (DType d : kAllDTypes) CHECK(parse_dtype(name(d)) == d);
  CHECK(name(DType::float32) == "float");
  CHECK(name(DType::float64) == "double");
}

TEST_CASE("The constants of the dtypes say what their bits are", "[collectives]") {
  const std::size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  REQUIRE(kAllDTypes.size() == std::size(sizes));
  for (std::size_t i = 0; i < std::size(sizes); ++i) {
    INFO(name(kAllDTypes[i]));
    CHECK(size_of(kAllDTypes[i]) == sizes[i]);
    // Sign, exponent and the significand without its hidden bit fill the element.
    const FloatFormat& format = element_type(kAllDTypes[i]).format;
    if (is_float(kAllDTypes[i])) CHECK(format.precision + format.exponent_bits == static_cast<int>(8 * sizes[i]));
    if (!is_float(kAllDTypes[i])) CHECK(format.precision == 0);
  }
  std::vector<std::string_view> with_sign, narrow, fp8;
  for (const DType d : kAllDTypes) {
    if (is_signed(d)) with_sign.push_back(name(d));
    if (is_narrow_float(d)) narrow.push_back(name(d));
    if (is_fp8(d)) fp8.push_back(name(d));
  }
  CHECK(with_sign == std::vector<std::string_view>{"int8", "int32", "int64"});
  CHECK(narrow == std::vector<std::string_view>{"half", "bfloat16", "f8e4m3", "f8e5m2"});
  CHECK(fp8 == std::vector<std::string_view>{"f8e4m3", "f8e5m2"});
  CHECK(dtype_choices() ==
        "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 all"
        " (also fp16 float16 fp32 float32 fp64 float64 bf16 fp8 e4m3 e5m2)");
}

TEST_CASE("Collectives and ops are found by their names", "[collectives]") {
  for (CollectiveId id : kAllCollectives) CHECK(find_collective(collective(id).name)->id == id);
  CHECK(find_collective("allreduce") == nullptr);
  for (Op op : kAllOps) CHECK(parse_op(name(op)) == op);
  CHECK_FALSE(parse_op("mean"));
}
