// Would catch: a dump that is a link to what only the reader may read, and half of a secret at the cut of a log.

#include "common/base/error.h"
#include "look/look_parts.h"
#include "temp_dir.h"

#include <catch2/catch.hpp>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

using namespace busbar;

TEST_CASE("Dumps of ranks are found and sent, and links are not followed", "[look][dumps]") {
  const TempDir folder;
  SeenProcess rank;
  rank.look.role = LookProcess::Role::rank;
  rank.look.pid = getpid();
  rank.dump_prefixes = {folder.path() + "/dump_", "relative_"};
  for (const int number : {3, 4}) std::ofstream(folder.path() + "/dump_" + std::to_string(number)) << "abcd";
  std::filesystem::create_symlink("dump_3", folder.path() + "/dump_5");
  const auto dumps_of = [&](int number) {
    rank.look.rank = number;
    return find_dumps({rank}, {}, 2e9);
  };
  REQUIRE(dumps_of(3).size() == 1);
  CHECK(with_bytes(dumps_of(3)[0], 4).base64 == "YWJjZA==");
  CHECK_THROWS_AS(with_bytes(dumps_of(3)[0], 3), Error);
  CHECK(dumps_of(5).empty());
  LookDump link;
  link.path = folder.path() + "/dump_5";
  CHECK_THROWS_AS(with_bytes(link, 4), Error);
  CHECK(find_dumps({rank}, {folder.path()}, 2e9).empty());
}

TEST_CASE("Of a log that is cut only whole lines are shown", "[look][logs]") {
  const TempDir folder;
  OpenLog log;
  log.log.path = log.at = folder.path() + "/job.log";
  const auto tail = [&](const std::string& text, std::size_t most) {
    std::ofstream(log.at) << text;
    return with_tail(log, most).text;
  };
  CHECK(tail("password=planted_secret\nstep 2\n", 12) == "step 2\n");
  CHECK(tail("password=planted_secret\rstep 2", 12) == "step 2");
  CHECK(tail("password=planted_secret", 12).empty());
  CHECK(tail("step 1\nstep 2\n", 100) == "step 1\nstep 2\n");
}
