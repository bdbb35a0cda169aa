// Would catch: a report that goes through a link which somebody laid under its guessable name, that others may read,
// or of which a reader sees half.

#include "common/evidence/hang_evidence.h"
#include "temp_dir.h"

#include <catch2/catch.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

using namespace busbar;

namespace {

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("a report takes the place of a link and leaves what that led to alone", "[hang_file]") {
  const TempDir folder;
  std::ofstream(folder.file("precious")) << "precious";
  REQUIRE(symlink(folder.file("precious").c_str(), folder.file("hang-1.json").c_str()) == 0);
  CHECK(write_private_file("report", folder.path(), "hang-1.json") ==
        std::filesystem::canonical(folder.path()) / "hang-1.json");
  CHECK(text_of(folder.file("precious")) == "precious");
  CHECK(text_of(folder.file("hang-1.json")) == "report");
  struct stat info {};
  REQUIRE(lstat(folder.file("hang-1.json").c_str(), &info) == 0);
  CHECK(S_ISREG(info.st_mode));
  CHECK((info.st_mode & 0777) == 0600);
}

TEST_CASE("an older report is replaced, a folder that is not there is told, and nothing else is left", "[hang_file]") {
  const TempDir folder;
  CHECK_FALSE(write_private_file("first, and longer", folder.path(), "hang-1.json").empty());
  CHECK_FALSE(write_private_file("second", folder.path(), "hang-1.json").empty());
  CHECK(text_of(folder.file("hang-1.json")) == "second");
  CHECK(write_private_file("x", folder.file("nowhere"), "hang-1.json").empty());
  REQUIRE(std::filesystem::create_directory(folder.file("hang-2.json")));
  CHECK(write_private_file("x", folder.path(), "hang-2.json").empty());
  const std::filesystem::directory_iterator files(folder.path());
  CHECK(std::distance(begin(files), end(files)) == 2);
}
