// The bugs these would catch: a file whose last line is half a line after a full disk, lines that are not there when
// the disk has room again, a run that dies of it, and lines that a SIGKILL takes back.

#include "common/base/error.h"
#include "common/output/report_file.h"
#include "full_disk.h"
#include "golden.h"
#include "temp_dir.h"

#include <catch2/catch.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>
#include <string_view>

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

TEST_CASE("A SIGKILL leaves whole lines, and the beginning of the next at most where a page ends",
          "[appended_file][unit]") {
  const TempDir dir;
  const std::string lines = some_lines(2000);
  for (int kill_after = 1; kill_after <= 100; ++kill_after) {
    INFO(kill_after);
    const std::string path = dir.file("r" + std::to_string(kill_after));
    std::array<int, 2> begun{};
    REQUIRE(pipe(begun.data()) == 0);
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      AppendedFile file(path, "--csv", "a,b\n");
      for (std::size_t at = 0; at < lines.size();) {
        const std::size_t end = lines.find('\n', at) + 1;
        file.append(std::string_view(lines).substr(at, end - at));
        if (write(begun[1], "x", 1) != 1) _exit(1);
        at = end;
      }
      _exit(0);
    }
    char byte = 0;
    for (int i = 0; i < kill_after; ++i) REQUIRE(read(begun[0], &byte, 1) == 1);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(begun[0]);
    close(begun[1]);
    const std::string left = read_text(path);
    CHECK(left == ("a,b\n" + lines).substr(0, left.size()));
    CHECK(std::count(left.begin(), left.end(), '\n') >= 1 + kill_after);
    CHECK((left.back() == '\n' || left.size() % 4096 == 0));
  }
}

TEST_CASE("A file whose header cannot be written is none", "[appended_file][unit]") {
  const TempDir dir;
  const FullDisk full(2);
  CHECK_THROWS_WITH(AppendedFile(dir.file("r.csv"), "--csv", "a,b\n"), Catch::Contains("--csv"));
  CHECK_FALSE(std::filesystem::exists(dir.file("r.csv")));
}
