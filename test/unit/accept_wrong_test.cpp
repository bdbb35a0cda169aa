// The bug this would catch: an overrun of an in-place call that is told of the out-of-place half, so that the criterion
// that fails has neither rank nor host.

#include "driver/accept/accept_engine.h"
#include "report_fixture.h"

#include <catch2/catch.hpp>

#include <vector>

using namespace busbar;

TEST_CASE("an overwritten guard belongs to the placement in which it was overwritten", "[accept][unit]") {
  Row row = sample_row();
  row.wrong = {sample_wrong(3), sample_wrong(1)};
  row.wrong[0].in_place = true;
  row.wrong[0].part = WrongPart::guard_after_recv;
  row.wrong[0].suspect_rank = -1;
  row.wrong[1].part = WrongPart::guard_before_send;
  row.wrong[1].suspect_rank = -1;
  Cell in, out;
  add_wrong(row, true, {0, 1, 2, 3}, in);
  add_wrong(row, false, {0, 1, 2, 3}, out);
  CHECK(in.wrong_ranks == std::vector<int>{3});
  CHECK(out.wrong_ranks == std::vector<int>{1});
  REQUIRE(in.wrong_texts.size() == 1);
  CHECK(in.wrong_texts[0].find("rank 3 on node1: guard after buffer: 4096 elements wrong") == 0);
  REQUIRE(out.wrong_texts.size() == 1);
  CHECK(out.wrong_texts[0].find("rank 1 on node1: guard before send: ") == 0);
}

TEST_CASE("a suspect is counted as the job counts ranks, in both placements", "[accept][unit]") {
  Row row = sample_row();
  row.wrong = {sample_wrong(5), sample_wrong(6)};  // both suspect rank 2 of their group
  for (WrongRank& wrong : row.wrong) wrong.in_place = true;
  Cell in;
  add_wrong(row, true, {4, 5, 6, 7}, in);
  CHECK(in.wrong_ranks == std::vector<int>{6});
  CHECK(in.wrong_texts.size() == 2);
}
