// Would catch: a field lost on its way between processes, bytes of another record that are read as if they were one.

#include "common/base/packed_fields.h"

#include "common/record/accept_fields.h"

#include <catch2/catch.hpp>

#include <limits>

using namespace busbar;

TEST_CASE("a record comes out as it was packed, to the last bit", "[record][packed]") {
  NodeReport node;
  node.host = "node1";
  node.ranks = {4, 5};
  node.time = "2026-11-21 18:00:00";
  node.time_s = 0.1 + 0.2;
  node.rows.push_back({.check = "env.name", .subject = std::string("\xff\0x", 3), .outcome = Outcome::fail});
  node.rows.back().must_agree = true;
  node.rows.back().if_differs = Outcome::fail;
  node.rows.back().ranks = {5};
  node.counters = {{"ib/mlx5_3/1/symbol_error", std::numeric_limits<std::uint64_t>::max()}};
  const NodeReport back = unpack_fields<NodeReport>(pack_fields(node));
  CHECK(back.host == node.host);
  CHECK(back.ranks == node.ranks);
  CHECK(back.time == node.time);
  CHECK(back.time_s == node.time_s);
  CHECK(back.rows == node.rows);
  CHECK(back.counters == node.counters);

  Cell cell;
  cell.stage = Stage::per_host;
  cell.busbw = std::numeric_limits<double>::infinity();
  cell.interval_s = Interval{1e-6, 2e-6};
  cell.epoch_medians_s = {1e-6, 2e-6, 3e-6};
  cell.ranks.push_back({3, "node1", 1, 2, 3, 0.5});
  const std::vector<Cell> cells{Cell{}, cell};
  const auto read = unpack_fields<std::vector<Cell>>(pack_fields(cells));
  REQUIRE(read.size() == 2);
  CHECK_FALSE(read[0].interval_s);
  CHECK_FALSE(read[0].wrong);
  CHECK(read[1].stage == Stage::per_host);
  CHECK(read[1].busbw == cell.busbw);
  CHECK(read[1].interval_s == cell.interval_s);
  CHECK(read[1].epoch_medians_s == cell.epoch_medians_s);
  CHECK(read[1].ranks.at(0).last_share == 0.5);
}

TEST_CASE("bytes that are cut or too many are refused", "[record][packed]") {
  NodeReport node;
  node.host = "node1";
  const std::string bytes = pack_fields(node);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CHECK_THROWS_AS(unpack_fields<NodeReport>(std::string_view(bytes).substr(0, size)), Error);
  }
  CHECK_THROWS_AS(unpack_fields<NodeReport>(bytes + "x"), Error);
}
