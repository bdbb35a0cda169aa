// The bugs these would catch: a file whose last line is half a line after a full disk, lines that are not there when
// the disk has room again, and a run that dies of it.

#include "common/output/appended_file.h"

#include "common/base/error.h"
#include "full_disk.h"
#include "golden.h"
#include "temp_dir.h"

#include <catch2/catch.hpp>

#include <cerrno>
#include <filesystem>
#include <string>

using namespace busbar;

namespace {

/// Lines of 1 to 300 bytes, so that some lie across the pages of the file.
std::string some_lines(int n) {
  std::string text;
  for (int i = 0; i < n; ++i)
    text += std::to_string(i) + std::string(static_cast<std::size_t>(i * 37 % 290), 'x') + "\n";
  return text;
}

}  // namespace

TEST_CASE("Lines are in the file when append() returns, however many come at once", "[appended_file][unit]") {
  const TempDir dir;
  AppendedFile file(dir.file("r.csv"), "--csv", "a,b\n");
  CHECK(read_text(file.path()) == "a,b\n");
  const std::string lines = some_lines(500);
  file.append(lines);
  file.append("last\n");
  CHECK(read_text(file.path()) == "a,b\n" + lines + "last\n");
  file.append(std::string(20'000, 'l') + "\n");  // a line of several pages
  CHECK(read_text(file.path()) == "a,b\n" + lines + "last\n" + std::string(20'000, 'l') + "\n");
  CHECK(file.complete());
}

TEST_CASE("On a full disk the file ends with a whole line, and gets the others once there is room",
          "[appended_file][unit]") {
  const TempDir dir;
  const std::string lines = some_lines(100);
  for (const rlim_t room : {300, 4096, 4100, 8191}) {
    INFO(room);
    const std::string path = dir.file("r" + std::to_string(room));
    std::string on_full_disk;
    const std::string said = stderr_of(dir.file("stderr"), [&] {
      AppendedFile file(path, "--csv", "a,b\n");
      {
        const FullDisk full(room);
        file.append(lines);
        file.append("more\n");
        on_full_disk = read_text(path);
        CHECK_FALSE(file.complete());
      }
      file.append("and more\n");
      CHECK(file.complete());
    });
    CHECK(said == write_warning(path, EFBIG));
    CHECK(on_full_disk.size() <= room);
    CHECK(on_full_disk.back() == '\n');
    const std::string all = "a,b\n" + lines + "more\nand more\n";
    CHECK(all.substr(0, on_full_disk.size()) == on_full_disk);
    CHECK(read_text(path) == all);
  }
}

TEST_CASE("A file whose header cannot be written is none", "[appended_file][unit]") {
  const TempDir dir;
  const FullDisk full(2);
  CHECK_THROWS_WITH(AppendedFile(dir.file("r.csv"), "--csv", "a,b\n"), Catch::Contains("--csv"));
  CHECK_FALSE(std::filesystem::exists(dir.file("r.csv")));
}
