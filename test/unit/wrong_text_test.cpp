// The bug these would catch: a wrong row says that something is wrong, but not on which rank of which host.

#include "common/output/format.h"
#include "report_fixture.h"

#include <catch2/catch.hpp>

#include <string>

using namespace busbar;

TEST_CASE("A wrong row names rank, host, buffer, place and suspect", "[wrong_text][unit]") {
  Row row = sample_row();
  row.row_case = sample_case(1048576);
  CHECK(wrong_text(kAllReduce, row, true).empty());
  row.wrong = {sample_wrong(3)};
  CHECK(
      wrong_text(kAllReduce, row, true) ==
      "# wrong: all_reduce size 4194304 count 1048576 float sum root -1 cycle 0: wrong data on 1 of 2 ranks\n"
      "# wrong: rank 3 node1 device 0 [core 3] host memory: out-of-place recv (check): 4096 of 1048576 elements wrong, "
      "first 512 last 4607, got 0xa5a5a5a5 want 3, suspected: missing contribution of rank 2\n");
}

TEST_CASE("A guard band and an undetermined cause claim no more than is known", "[wrong_text][unit]") {
  Row row = sample_row();
  row.wrong = {sample_wrong(0)};
  row.wrong[0].part = WrongPart::guard_after_recv;
  row.wrong[0].got.clear();
  row.wrong[0].want.clear();
  row.wrong[0].cause.clear();
  row.wrong[0].explanation.clear();
  const std::string text = wrong_text(kAllReduce, row, true);
  CHECK(text.find("guard after recv: 4096 elements overwritten, first 512 last 4607, suspected: undetermined\n") !=
        std::string::npos);
}

TEST_CASE("Many wrong ranks are summed up; a rank's own buffers stay together", "[wrong_text][unit]") {
  Row row = sample_row();
  row.row_case.problem.nranks = 64;
  for (int rank = 0; rank < 20; ++rank) {
    row.wrong.push_back(sample_wrong(rank));
    row.wrong.push_back(sample_wrong(rank));
    row.wrong.back().in_place = true;
  }
  const std::string text = wrong_text(kAllReduce, row, true);
  CHECK(text.find("wrong data on 20 of 64 ranks") != std::string::npos);
  CHECK(text.find("rank 7 node1 device 0 [core 3] host memory: in-place (check):") != std::string::npos);
  CHECK(text.find("rank 8 ") == std::string::npos);
  CHECK(text.find("# wrong: ... and 12 more ranks (all in JSON)\n") != std::string::npos);
  CHECK(wrong_text(kAllReduce, row, false).find("(-J FILE.json lists all)") != std::string::npos);
}
