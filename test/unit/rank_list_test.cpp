// Would catch: a list that grows with the number of ranks that a log's line invents, ranks lost or told twice at the
// ends of ranges, a document that lists two thousand million ranks one by one.

#include "common/base/compress_list.h"
#include "common/record/json_values.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <climits>
#include <cstdint>
#include <vector>

using namespace busbar;

namespace {

std::vector<int> missing(const std::vector<int>& ascending, int nranks) {
  return missing_ranks(ascending, nranks).each();
}

}  // namespace

TEST_CASE("Ranks that count on are one range, in the order in which they came", "[rank_list]") {
  const RankList list(std::vector<int>{0, 1, 2, 7, 5, 6});
  CHECK(list.ranges() == std::vector<RankList::Range>{{0, 2}, {7, 7}, {5, 6}});
  CHECK(list.size() == 6);
  CHECK(list.front() == 0);
  CHECK(list.each() == std::vector<int>{0, 1, 2, 7, 5, 6});
  CHECK(compress_ranks(list) == "0-2,7,5,6");
  CHECK(RankList().empty());
}

TEST_CASE("Missing ranks are those between, before and behind", "[rank_list]") {
  CHECK(missing({}, 3) == std::vector<int>{0, 1, 2});
  CHECK(missing({0, 1, 2}, 3).empty());
  CHECK(missing({1}, 3) == std::vector<int>{0, 2});
  CHECK(missing({0, 2, 2, 5}, 5) == std::vector<int>{1, 3, 4});
  CHECK(missing({-1, 0}, 2) == std::vector<int>{1});
  CHECK(missing({}, 0).empty());
  CHECK(missing({}, -1).empty());
}

TEST_CASE("Of two thousand million ranks a few ranges are kept", "[rank_list]") {
  const RankList list = missing_ranks(std::vector<int>{0, 7, INT_MAX - 1, INT_MAX}, INT_MAX);
  CHECK(compress_ranks(list) == "1-6,8-2147483645");
  CHECK(list.size() == std::uint64_t{2147483647} - 3);
}

TEST_CASE("A document lists ranks while there is room, and tells ranges behind that", "[rank_list][json]") {
  std::uint64_t room = 4;
  CHECK(json_ranks(missing_ranks(std::vector<int>{1}, 4), room) == Json::array({0, 2, 3}));
  CHECK(json_ranks(missing_ranks(std::vector<int>{0}, 3), room) == Json("1,2"));
  CHECK(json_ranks(missing_ranks(std::vector<int>{0}, INT_MAX), room) == Json("1-2147483646"));
  CHECK(json_ranks(missing_ranks(std::vector<int>{0}, 2), room) == Json::array({1}));
}
