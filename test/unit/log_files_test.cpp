// Would catch: a line lost or cut where two blocks meet, memory that grows with a line, a pipe that makes the reader
// wait for ever, a file that shrinks under the reader, a rank that counts twice because a link names it again.

#include "driver/readers/log_files.h"

#include "common/base/error.h"
#include "temp_dir.h"

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

using namespace busbar;
namespace fs = std::filesystem;

namespace {

void write(const std::string& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }

struct Told {
  LogFile file;
  std::vector<std::uint64_t> numbers;
  std::vector<std::uint64_t> op_counts;  ///< of calls
  std::vector<std::string> texts;        ///< of other lines
};

Told read(const std::string& path) {
  Told told;
  told.file = read_log_file(path, [&](const LogLine& line, std::uint64_t number) {
    told.numbers.push_back(number);
    if (const auto* call = std::get_if<CollCall>(&line.fact)) told.op_counts.push_back(call->op_count);
    if (const auto* other = std::get_if<OtherLine>(&line.fact)) told.texts.emplace_back(other->text);
  });
  return told;
}

std::string call(std::uint64_t op_count) {
  char line[200];
  std::snprintf(line, sizeof line, "node7:42:43 [3] NCCL INFO AllReduce: opCount %llx count 512",
                static_cast<unsigned long long>(op_count));
  return line;
}

std::vector<std::string> names(const std::vector<fs::path>& paths, const fs::path& base) {
  std::vector<std::string> found;
  for (const fs::path& path : paths) found.push_back(path.lexically_relative(base).string());
  return found;
}

}  // namespace

TEST_CASE("a file is read line by line", "[diagnose][log_files]") {
  const TempDir dir;
  const std::string path = dir.file("log");
  const std::string text = call(1) + "\r\n\nstep 3\n" + call(2) + "\nnode7:42:43 [3] NCCL INFO Who knows\n" +
                           "node7:42:43 [3] NCCL INFO Launch mode Parallel\n" + call(3);
  write(path, text);
  const Told told = read(path);
  CHECK(told.numbers == std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 7});
  CHECK(told.op_counts == std::vector<std::uint64_t>{1, 2, 3});  // the last has no end
  CHECK(told.texts == std::vector<std::string>{"", "step 3", "Who knows", "Launch mode Parallel"});
  CHECK(told.file.path == path);
  CHECK(told.file.bytes == text.size());
  CHECK(told.file.lines == 7);
  CHECK(told.file.nccl_lines == 5);
  CHECK(told.file.unknown_lines == 1);
  write(path, "> sh run.sh " + call(1) + " " + call(2) + " " + call(3));  // a page lost the line breaks
  CHECK(read(path).op_counts == std::vector<std::uint64_t>{1, 2, 3});
  // Progress bars leave their line open.
  const std::string none = "x:  0%|  | 0/28 [00:00<?, ?it/s]", more = "x:  4%|# | 1/28 [00:42<19:13, 4.2s/it, loss=2]";
  write(path, none + more + "[TP3] failed\n" + more + "\na 5%| b\n");
  CHECK(read(path).texts == std::vector<std::string>{none, more, "[TP3] failed", more, "a 5%| b"});
  CHECK(told.file.trouble.empty());
}

TEST_CASE("what a tool put before every line of a file is taken off, a label if it differs", "[diagnose][log_files]") {
  const TempDir dir;
  const std::string path = dir.file("log"), third = "the end";
  using Lines = std::vector<std::string>;
  const auto texts = [&](const std::string& one, const std::string& two) {
    write(path, one + "[rank3]: no\n" + two + "no more\n\n" + one + third + "\n");
    Lines lines = read(path).texts;
    std::erase(lines, "");
    return lines;
  };
  const Lines plain{"[rank3]: no", "no more", third};
  CHECK(texts("", "") == plain);
  CHECK(texts("- ", "- ") == plain);
  CHECK(texts(" 17  ", " 18  ") == plain);
  CHECK(texts("trainer-1  | ", "trainer-1  | ") == plain);
  CHECK(texts("train-0 pytorch ", "train-0 pytorch ") == plain);
  CHECK(texts("Nov 20 10:11:12 n07 docker[33]: ", "Nov 20 10:11:13 n07 docker[33]: ") == plain);
  CHECK(texts("1779264164792\t2026-11-20T08:02:44Z\t", "1779264164792\t2026-11-20T08:02:44Z\t").front() ==
        "2026-11-20T08:02:44Z\t[rank3]: no");
  CHECK(texts("[2026-11-20 10:11:12] ", "[2026-11-20 10:11:12] ").front() == "2026-11-20 10:11:12 [rank3]: no");
  CHECK(texts("[pod/t-0/c] ", "[pod/t-1/c] ")[1] == "[pod/t-1/c] no more");
  CHECK(texts("t-0  | ", "t-1  | ")[1] == "[pod/t-1/] no more");
  // One line of three, or a word that many lines begin with, is no prefix.
  CHECK(texts("- ", "")[1] == "no more");
  CHECK(texts("loss | ", "gpu | ")[1] == "gpu | no more");
  // Records: of docker, whose message may have several lines, and of others, whose fields have other names.
  const std::string head = "{\"log\":\"say \\\"no\\\"\\n", tail = "\",\"time\":\"2026-11-20T10:11:12Z\"}\n";
  write(path, head + tail + head + "line 2\\n" + tail + "{\"message\":\"x\",\"n\":1}\n{\"loss\": 0.5}\n");
  const std::string said = "2026-11-20T10:11:12Z say \"no\"";
  CHECK(read(path).texts == Lines{said, said, "2026-11-20T10:11:12Z line 2", " x", "{\"loss\": 0.5}"});
}

TEST_CASE("lines of NCCL 2.1 and 2.2 have no name, and are NCCL's", "[diagnose][log_files]") {
  const TempDir dir;
  const std::string path = dir.file("log");
  write(path,
        "node7:42:43 [3] INFO Who knows\n[1,3]<stdout>:node7:42:43 [3] include/socket.h:360 WARN Call failed\n"
        "2026-11-20 10:00:00 [3] INFO step 3\n");
  CHECK(read(path).file.nccl_lines == 2);
}

TEST_CASE("an empty file has no lines", "[diagnose][log_files]") {
  const TempDir dir;
  write(dir.file("log"), "");
  CHECK(read(dir.file("log")).file.lines == 0);
  CHECK(read(dir.file("log")).file.trouble == "empty");
  write(dir.file("one"), "\n");
  CHECK(read(dir.file("one")).file.lines == 1);
}

TEST_CASE("no line is lost where blocks meet", "[diagnose][log_files]") {
  const TempDir dir;
  // Five blocks of lines of every length, so that blocks end everywhere in them.
  std::string text;
  std::uint64_t calls = 0;
  for (; text.size() < (std::size_t{5} << 20); ++calls) text += call(calls) + std::string(calls % 89, ' ') + "\n";
  write(dir.file("log"), text);
  const Told told = read(dir.file("log"));
  REQUIRE(told.op_counts.size() == calls);
  std::vector<std::uint64_t> want(calls);
  std::iota(want.begin(), want.end(), 0);
  CHECK(told.op_counts == want);
  CHECK(told.file.bytes == text.size());
}

TEST_CASE("lines are cut at 64 KiB, and counted", "[diagnose][log_files]") {
  const TempDir dir;
  constexpr std::size_t kMost = LineReader::kMaxLine;
  // Up to beyond a block (1 MiB), with and without an end, at the end of the file and before other lines.
  for (const std::size_t length : {kMost - 1, kMost, kMost + 1, std::size_t{1} << 20, (std::size_t{1} << 20) + kMost,
                                   (std::size_t{1} << 20) + kMost + 1, std::size_t{3} << 20}) {
    INFO(length);
    const std::string line(length, 'x');
    for (const std::string& text : {call(1) + "\n" + line, call(1) + "\n" + line + "\n" + call(2) + "\n"}) {
      write(dir.file("log"), text);
      const Told told = read(dir.file("log"));
      const bool followed = text.back() == '\n';
      CHECK(told.file.lines == (followed ? 3 : 2));
      CHECK(told.op_counts.size() == (followed ? 2 : 1));
      REQUIRE(told.texts.size() == 1);
      CHECK(told.texts[0].size() == std::min(length, kMost));
      CHECK(told.file.bytes == text.size());
    }
  }
}

TEST_CASE("NULs do not hide what stands behind them", "[diagnose][log_files]") {
  const TempDir dir;
  using namespace std::string_literals;
  // A log that was truncated while its writer went on: a hole of more than a block, then lines.
  write(dir.file("hole"), std::string(std::size_t{3} << 20, '\0') + call(7) + "\n" + call(8) + "\n");
  CHECK(read(dir.file("hole")).op_counts == std::vector<std::uint64_t>{7, 8});
  CHECK(read(dir.file("hole")).file.lines == 2);
  write(dir.file("late"), call(6) + "\n" + std::string(std::size_t{3} << 20, '\0') + call(7) + "\n" + call(8) + "\n");
  CHECK(read(dir.file("late")).op_counts == std::vector<std::uint64_t>{6, 7, 8});
  write(dir.file("inside"), call(1) + "\n" + "ab\0cd\n"s + call(2) + "\n");
  CHECK(read(dir.file("inside")).op_counts == std::vector<std::uint64_t>{1, 2});
  CHECK(read(dir.file("inside")).texts == std::vector<std::string>{"ab\0cd"s});
}

TEST_CASE("files that are not text are named and not read", "[diagnose][log_files]") {
  const TempDir dir;
  std::string noise;
  for (unsigned i = 0, state = 1; i < 100000; ++i)
    noise += static_cast<char>((state = state * 1103515245 + 12345) >> 16);
  write(dir.file("core"),
        "\x7f"
        "ELF" +
            noise);
  CHECK(read(dir.file("core")).file.trouble == "binary");
  CHECK(read(dir.file("core")).file.lines == 0);
  // Colours, bells, other languages and a little dirt are text.
  write(dir.file("dirty"),
        "\x1b[31mfehlgeschlagen: Zustand \xe4\xf6\xfc\x1b[0m\a\b\b \x01 danach geht es weiter\n" + call(1) + "\n");
  CHECK(read(dir.file("dirty")).op_counts.size() == 1);
}

TEST_CASE("pipes, devices, folders and missing files are refused at once", "[diagnose][log_files]") {
  const TempDir dir;
  REQUIRE(::mkfifo(dir.file("pipe").c_str(), 0600) == 0);
  CHECK_FALSE(read(dir.file("pipe")).file.trouble.empty());  // would wait for ever for a writer
  CHECK_FALSE(read("/dev/zero").file.trouble.empty());       // would read for ever
  CHECK_FALSE(read(dir.path()).file.trouble.empty());
  CHECK(read(dir.file("missing")).file.trouble == "No such file or directory");
  CHECK(read("/proc/self/pagemap").file.bytes <= (std::uint64_t{64} << 20));  // 256 GiB for each of a page's tables
}

TEST_CASE("a file that grows or shrinks while it is read has an end", "[diagnose][log_files]") {
  const TempDir dir;
  const std::string path = dir.file("log");
  std::string text;
  for (std::uint64_t i = 0; i < 100000; ++i) text += call(i) + "\n";
  REQUIRE(text.size() > (std::size_t{4} << 20));
  write(path, text);
  std::uint64_t told = 0;
  const auto count_calls = [&](const LogLine& line) { told += std::holds_alternative<CollCall>(line.fact) ? 1 : 0; };
  // Each line that is told adds one: the end of the file recedes as fast as it is read.
  std::ofstream more(path, std::ios::app);
  CHECK(read_log_file(path, [&](const LogLine& line, std::uint64_t) {
          count_calls(line);
          more << call(1) << '\n' << std::flush;
        }).bytes == text.size());
  CHECK(told == 100000);
  // A reader of a mapping would die of SIGBUS here.
  told = 0;
  const LogFile shrunk = read_log_file(path, [&](const LogLine& line, std::uint64_t number) {
    count_calls(line);
    if (number == 10) fs::resize_file(path, 0);
  });
  CHECK(told >= 10);
  CHECK(told < 100000);
  CHECK(shrunk.trouble.empty());
}

TEST_CASE("standard input is read to its end, from a pipe too", "[diagnose][log_files]") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const std::string text = call(1) + "\n" + call(2);
  REQUIRE(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  ::close(ends[1]);
  const int saved = ::dup(STDIN_FILENO);
  ::dup2(ends[0], STDIN_FILENO);
  const Told told = read("-");
  ::dup2(saved, STDIN_FILENO);
  ::close(saved);
  ::close(ends[0]);
  CHECK(told.op_counts == std::vector<std::uint64_t>{1, 2});
  CHECK(told.file.bytes == text.size());
}

TEST_CASE("what the caller throws ends the reading", "[diagnose][log_files]") {
  const TempDir dir;
  write(dir.file("log"), call(1) + "\n" + call(2) + "\n");
  int told = 0;
  CHECK_THROWS_AS(read_log_file(dir.file("log"), [&](const LogLine&, std::uint64_t) { throw ++told; }), int);
  CHECK(told == 1);
}

TEST_CASE("folders are searched however deep, in order of name", "[diagnose][log_files]") {
  const TempDir dir;
  fs::create_directories(dir.file("job/b/c"));
  for (const char* name : {"job/z.log", "job/a.log", "job/b/2", "job/b/10", "job/b/c/x", "lone"})
    write(dir.file(name), "x\n");
  REQUIRE(::mkfifo(dir.file("job/pipe").c_str(), 0600) == 0);
  fs::create_symlink("a.log", dir.file("job/latest"));
  fs::create_hard_link(dir.file("job/z.log"), dir.file("job/zz.log"));
  fs::create_directory_symlink("..", dir.file("job/b/up"));  // round in a circle
  fs::create_symlink("nowhere", dir.file("job/dangling"));
  const std::vector<fs::path> given{dir.file("lone"), dir.file("job"), dir.file("job/b/2"), dir.file("job/pipe")};
  // Each file once; what is named by itself is always there, so that it can be told why it is not read.
  CHECK(names(find_log_files(given), dir.path()) ==
        std::vector<std::string>{"lone", "job/a.log", "job/b/10", "job/b/2", "job/b/c/x", "job/z.log", "job/pipe"});
  CHECK(find_log_files(std::vector<fs::path>{"-"}) == std::vector<fs::path>{"-"});
  CHECK(find_log_files(std::vector<fs::path>{}).empty());
}

TEST_CASE("a path that does not exist is an error", "[diagnose][log_files]") {
  const TempDir dir;
  try {
    find_log_files(std::vector<fs::path>{dir.file("missing")});
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_config);
    CHECK(std::string(error.what()) == dir.file("missing") + ": no such file or folder");
  }
}

TEST_CASE("a folder that cannot be listed is not passed over in silence", "[diagnose][log_files]") {
  if (::geteuid() == 0) {
    WARN("not tested: root may list every folder");
    return;
  }
  const TempDir dir;
  fs::create_directories(dir.file("job/secret"));
  write(dir.file("job/secret/log"), "x\n");
  ::chmod(dir.file("job/secret").c_str(), 0);
  const auto files = find_log_files(std::vector<fs::path>{dir.file("job")});
  CHECK(names(files, dir.path()) == std::vector<std::string>{"job/secret"});
  CHECK_FALSE(read(dir.file("job/secret")).file.trouble.empty());
  ::chmod(dir.file("job/secret").c_str(), 0700);
}
