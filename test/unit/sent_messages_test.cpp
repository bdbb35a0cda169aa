// Would catch: bytes of start and end counted as the collective's, calls that differ averaged into an algorithm that
// does not exist, and a line of the monitoring's file read by its wrong column.

#include "common/base/error.h"
#include "driver/fingerprint/fingerprint_run.h"

#include <catch2/catch.hpp>

using namespace busbar;

namespace {

SentMatrix uniform(std::size_t nranks, const Sent& sent) {
  SentMatrix matrix(nranks, std::vector<Sent>(nranks));
  for (std::size_t r = 0; r < nranks; ++r) matrix[r][(r + 1) % nranks] = sent;
  return matrix;
}

}  // namespace

TEST_CASE("A rank's counts are read from Open MPI's file", "[sent_messages][tools]") {
  // As Open MPI 4.1.4 writes it; the histogram behind is longer there.
  const char* text =
      "# POINT TO POINT\n"
      "E\t1\t0\t100 bytes\t2 msgs sent\t1,0,1\n"
      "I\t1\t0\t2883 bytes\t48 msgs sent\t1,1,0,15\n"
      "I\t1\t2\t0 bytes\t1 msgs sent\t1,0,0\n"
      "# OSC\n"
      "# COLLECTIVES\n"
      "C\t1\t0\t2938 bytes\t52 msgs sent\n"
      "D\tMPI COMMUNICATOR 4 SPLIT FROM 3\tprocs: 0,1,2\n"
      "O2A\t1\t24 bytes\t1 msgs sent\n";
  CHECK(parse_monitoring(text, 1, 3) == std::vector<Sent>{{50, 2983}, {0, 0}, {1, 0}});
  CHECK_THROWS_AS(parse_monitoring(text, 0, 3), Error);  // another rank's file
  CHECK_THROWS_AS(parse_monitoring(text, 1, 2), Error);
  CHECK_THROWS_AS(parse_monitoring("", 1, 3), Error);
  CHECK_THROWS_AS(parse_monitoring("# POINT TO POINT\nI\t1\tx\t", 1, 3), Error);
}

TEST_CASE("What start and end send is taken off, and calls must be alike", "[sent_messages][tools]") {
  CHECK(per_call(uniform(3, {67, 1034}), uniform(3, {7, 34}), 10) == uniform(3, {6, 100}));
  CHECK_THROWS_AS(per_call(uniform(3, {66, 1034}), uniform(3, {7, 34}), 10), Error);
  CHECK_THROWS_AS(per_call(uniform(3, {67, 1035}), uniform(3, {7, 34}), 10), Error);
  CHECK_THROWS_AS(per_call(uniform(3, {0, 0}), uniform(3, {10, 0}), 10), Error);
}

TEST_CASE("What is sent is told in a line", "[sent_messages][tools]") {
  CHECK(describe(uniform(4, {6, 98304})) == "6 messages, 96 KiB per rank");
  CHECK(describe(uniform(2, {1, 8})) == "1 message, 8 B per rank");
  SentMatrix to_root = uniform(4, {1, 65536});
  to_root[0] = {{0, 0}, {1, 65536}, {1, 65536}, {1, 65536}};
  CHECK(describe(to_root) == "r0 3/192 KiB, others 1/64 KiB");
  SentMatrix three = uniform(5, {1, 1024});
  three[1][2] = {2, 2048};
  three[2][3] = {2, 2048};
  three[4][0] = {0, 0};
  CHECK(describe(three) == "r1,2 2/2 KiB, r4 nothing, others 1/1 KiB");
}

TEST_CASE("Only algorithms that send exactly this are named", "[sent_messages][tools]") {
  const SentMatrix ring = uniform(4, {6, 98304});
  // The same sums, but to other ranks.
  SentMatrix pairs(4, std::vector<Sent>(4));
  for (std::size_t r = 0; r < 4; ++r) pairs[r][r ^ 1] = {6, 98304};
  std::vector<KnownFingerprint> known{{{4, 0}, "", ring}, {{3, 0}, "", pairs}, {{5, 0}, "needs a segment size", ring}};
  const auto found = consistent(ring, known);
  REQUIRE(found.size() == 1);
  CHECK(found[0].algorithm == 4);
  CHECK(describe_consistent(kAllReduce, found) == "{ring}");
  CHECK(describe_consistent(kAllReduce, {{1, 0}, {2, 0}}) == "{basic_linear, nonoverlapping}: alike here");
  CHECK(describe_consistent(kAllReduce, {}) == "{}: none of the algorithms below");
}
