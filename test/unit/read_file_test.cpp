// The bug this would catch: a file that does not end, or is far larger than any of ours, that fills the memory.

#include "common/base/read_file.h"

#include "common/base/error.h"
#include "golden.h"
#include "temp_dir.h"

#include <catch2/catch.hpp>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

using namespace busbar;
using Catch::Contains;

static void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST_CASE("A file is read whole, up to the limit", "[read_file][unit]") {
  const TempDir dir;
  const std::string path = dir.file("f");
  const std::string text = std::string("a\0b\r\n", 5) + std::string(100000, 'x');
  write_text(path, text);
  CHECK(read_file(path, "the file") == text);
  CHECK(read_file(path, "the file", text.size()) == text);
  CHECK_THROWS_WITH(read_file(path, "the file", text.size() - 1),
                    Contains("cannot read the file '" + path + "': it has more than"));
  write_text(path, "");
  CHECK(read_file(path, "the file").empty());
}

TEST_CASE("What does not end is refused, and so is what cannot be read", "[read_file][unit]") {
  const TempDir dir;
  REQUIRE(::mkfifo(dir.file("pipe").c_str(), 0600) == 0);  // nobody writes to it
  for (const std::string& path : {std::string("/dev/zero"), dir.file("pipe")}) {
    CHECK_THROWS_WITH(read_file(path, "the file"), Contains("it is a pipe or a device"));
  }
  CHECK_THROWS_WITH(read_file(dir.path(), "the file"),
                    "cannot read the file '" + dir.path() + "': it is a directory; name a file");
  CHECK_THROWS_WITH(read_file(dir.file("none"), "the file"),
                    "cannot read the file '" + dir.file("none") + "': No such file or directory");
  write_text(dir.file("huge"), "");
  std::filesystem::resize_file(dir.file("huge"), std::uintmax_t{1} << 40);  // without blocks
  CHECK_THROWS_WITH(read_file(dir.file("huge"), "the file"), Contains("it has more than 512"));
}
