// Would catch: an archive, a compressed file or an encoding whose text is not read, or as other lines than it has; a
// bomb or a password that takes the memory or the tool's word for OK; an end that is missing without a word.

#include "driver/diagnose/diagnose_inputs.h"
#include "temp_dir.h"

#include <archive.h>
#include <archive_entry.h>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace busbar;
using namespace std::string_literals;

namespace {

/// Two ranks that disagree on the count of their third call.
std::string log_text() {
  std::string text;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string r = std::to_string(rank), begin = "node" + r + ":10" + r + ":10" + r + " [0] NCCL INFO ";
    text += begin + "comm 0x" + r + "1 rank " + r + " nranks 2 cudaDev 0 busId 10 commId 0x4d - Init COMPLETE\n";
    for (int i = 0; i < 3; ++i) {
      text += begin + "AllReduce: opCount " + std::to_string(i) + " sendbuff 0x1 recvbuff 0x2 count " +
              std::to_string(i == 2 ? 512 + rank : 64) + " datatype 7 op 0 root 0 comm 0x" + r +
              "1 [nranks=2] stream 0x3\n";
    }
  }
  return text;
}

struct Told {
  std::string sentence;
  std::uint64_t lines = 0;
  std::vector<std::string> troubles;
};

Told diagnosed(const std::string& path, std::uint64_t most_bytes = 0) {
  const std::vector<std::filesystem::path> paths{path};
  ReadLogs logs = read_logs(sort_inputs(unpacked(paths, most_bytes)).logs, 0);
  Told told;
  for (const LogFile& file : logs.files) {
    told.lines += file.lines;
    if (!file.trouble.empty()) told.troubles.push_back(file.path.filename().string() + ": " + file.trouble);
  }
  told.sentence = logs.job.conclude(std::move(logs.files), {}).sentence;
  return told;
}

Told diagnosed_text(std::string_view text) {
  const TempDir dir;
  std::ofstream(dir.file("log"), std::ios::binary) << text;
  return diagnosed(dir.file("log"));
}

/// As it is told of the plain text.
void check_same(const Told& told) {
  const Told plain = diagnosed_text(log_text());
  REQUIRE(plain.sentence.find("512") != std::string::npos);
  CHECK(told.sentence == plain.sentence);
  CHECK(told.troubles == std::vector<std::string>{});
}

using Step = int (*)(archive*);

std::string archive_of(Step format, Step filter, const std::vector<std::pair<std::string, std::string>>& members,
                       const char* password = nullptr) {
  archive* const out = archive_write_new();
  std::string bytes(std::size_t{4} << 20, '\0');
  std::size_t used = 0;
  REQUIRE(format(out) == ARCHIVE_OK);
  REQUIRE(filter(out) == ARCHIVE_OK);
  archive_write_set_bytes_in_last_block(out, 1);
  if (password != nullptr) {
    REQUIRE(archive_write_set_options(out, "zip:encryption=aes256") == ARCHIVE_OK);
    archive_write_set_passphrase(out, password);
  }
  REQUIRE(archive_write_open_memory(out, bytes.data(), bytes.size(), &used) == ARCHIVE_OK);
  for (const auto& [name, text] : members) {
    archive_entry* const entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0600);
    archive_entry_set_size(entry, static_cast<la_int64_t>(text.size()));
    REQUIRE(archive_write_header(out, entry) == ARCHIVE_OK);
    REQUIRE(archive_write_data(out, text.data(), text.size()) == static_cast<la_ssize_t>(text.size()));
    archive_entry_free(entry);
  }
  REQUIRE(archive_write_free(out) == ARCHIVE_OK);
  bytes.resize(used);
  return bytes;
}

std::string compressed(Step filter, const std::string& text) {
  return archive_of(archive_write_set_format_raw, filter, {{"log", text}});
}

std::string utf16(std::string_view text, bool high_first) {
  std::string wide;
  for (const char c : text) wide += high_first ? "\0"s + c : c + "\0"s;
  return wide;
}

std::string replaced(std::string text, std::string_view what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

}  // namespace

TEST_CASE("compressed files and archives are read as what is in them", "[diagnose][input_file]") {
  const std::string text = log_text();
  for (const Step filter : {archive_write_add_filter_gzip, archive_write_add_filter_bzip2, archive_write_add_filter_xz,
                            archive_write_add_filter_zstd, archive_write_add_filter_lz4}) {
    check_same(diagnosed_text(compressed(filter, text)));
  }
  const std::size_t half = text.find("node1");
  const std::vector<std::pair<std::string, std::string>> members{{"job/0", text.substr(0, half)},
                                                                 {"job/1", text.substr(half)}};
  for (const Step format : {archive_write_set_format_zip, archive_write_set_format_7zip, archive_write_set_format_ustar,
                            archive_write_set_format_pax}) {
    check_same(diagnosed_text(archive_of(format, archive_write_add_filter_none, members)));
  }
  const std::string inner = archive_of(archive_write_set_format_ustar, archive_write_add_filter_gzip, members);
  check_same(diagnosed_text(
      archive_of(archive_write_set_format_zip, archive_write_add_filter_none, {{"logs.tar.gz", inner}})));
}

TEST_CASE("what cannot be unpacked is named, and the rest is read", "[diagnose][input_file][slow]") {
  const auto zipped = [](const std::vector<std::pair<std::string, std::string>>& members, const char* password) {
    return archive_of(archive_write_set_format_zip, archive_write_add_filter_none, members, password);
  };
  CHECK(diagnosed_text(zipped({{"secret.log", log_text()}}, "1234")).troubles ==
        std::vector<std::string>{"secret.log: encrypted"});

  std::string deep = log_text();
  for (int i = 0; i < 9; ++i) deep = zipped({{"inner", deep}}, nullptr);
  CHECK(diagnosed_text(deep).troubles == std::vector<std::string>{"inner: an archive in too many others"});

  const std::string bomb = compressed(archive_write_add_filter_zstd, std::string(std::size_t{80} << 20, '\0'));
  const Told bombed = diagnosed_text(zipped({{"good", log_text()}, {"bomb.zst", bomb}}, nullptr));
  REQUIRE(bombed.troubles.size() == 1);
  CHECK(bombed.troubles[0].find("bomb.zst: a bomb") == 0);
  CHECK(bombed.lines == 8);

  const TempDir dir;
  std::ofstream(dir.file("log.gz")) << compressed(archive_write_add_filter_gzip, std::string(100000, '\n'));
  CHECK(diagnosed(dir.file("log.gz")).lines == 100000);
  std::string no_tar = archive_of(archive_write_set_format_ustar, archive_write_add_filter_none, {{"a", log_text()}});
  no_tar[0] = 'b';  // its sum is another
  CHECK(diagnosed_text(no_tar).troubles == std::vector<std::string>{"log: damaged: Unrecognized archive format"});
  const Told large = diagnosed(dir.file("log.gz"), 50000);
  REQUIRE(large.troubles.size() == 1);
  CHECK(large.troubles[0].find("log.gz: unpacked it needs more than") == 0);
}

TEST_CASE("of a compressed file that is cut or damaged the beginning is read", "[diagnose][input_file][slow]") {
  std::string text = log_text();
  for (unsigned i = 0, noise = 1; i < 100000; ++i) text += std::to_string(noise = noise * 1103515245 + 12345) + "\n";
  const std::string whole = compressed(archive_write_add_filter_gzip, text);
  std::string damaged = compressed(archive_write_add_filter_bzip2, text);  // with sums of its blocks
  damaged.replace(damaged.size() - 100, 16, 16, '\xff');
  const std::string tar = archive_of(archive_write_set_format_ustar, archive_write_add_filter_gzip, {{"log", text}});
  for (const std::string& bytes : {whole.substr(0, whole.size() / 2), damaged, tar.substr(0, tar.size() / 2)}) {
    const Told told = diagnosed_text(bytes);
    CHECK(told.lines > 5000);
    CHECK(told.sentence == diagnosed_text(log_text()).sentence);
    REQUIRE_FALSE(told.troubles.empty());
    CHECK(told.troubles[0].find("log: its rest: ") == 0);
  }
}

TEST_CASE("UTF-16 and marks of byte order are no part of the text", "[diagnose][input_file]") {
  const std::string text = log_text();
  for (const bool high_first : {false, true}) {
    check_same(diagnosed_text(utf16(text, high_first) + (high_first ? "\x20\xac" : "\xac\x20")));
    check_same(diagnosed_text((high_first ? "\xfe\xff" : "\xff\xfe") + utf16(text, high_first)));
  }
  const Told marked = diagnosed_text("\xef\xbb\xbf" + replaced(text, "node1", "\xef\xbb\xbfnode1"));
  check_same(marked);
  CHECK(marked.lines == 8);
  // U+00E9 and U+20AC, with a host of that name.
  const std::string wide = "\xff\xfe\xe9\0\xac\x20"s + utf16(":1:1 [0] NCCL INFO Channel 00/02 : 0 1\n", false);
  const TempDir dir;
  std::ofstream(dir.file("wide")) << wide;
  const InputFile plain = plain_text({dir.file("wide"), dir.file("wide"), {}, {}}, true);
  CHECK(read_piece(plain.opens, 100).text.find("\xc3\xa9\xe2\x82\xac:1:1 [0]") == 0);
}

TEST_CASE("a carriage return ends a line, and lines are numbered by line feeds", "[diagnose][input_file]") {
  const std::string text = log_text();
  const std::string bar(std::size_t{200} << 10, '=');  // longer than a line may be
  const Told told = diagnosed_text(bar + replaced(text, "node", "\r 45%|###  | 45/100 [07:12<10:22]\rnode"));
  check_same(told);
  CHECK(told.lines == 8);
  check_same(diagnosed_text(replaced(text, "\n", "\r\n")));
  check_same(diagnosed_text(replaced(text, "\n", "\r\r\n")));
  check_same(diagnosed_text(replaced(text, "\n", "\r")));
  for (const std::size_t hole : {std::size_t{100}, std::size_t{1} << 20}) {  // left by a log that was truncated
    check_same(diagnosed_text(std::string(hole, '\0') + text));
    check_same(diagnosed_text(compressed(archive_write_add_filter_gzip, std::string(hole, '\0') + text)));
  }
}

TEST_CASE("parts of long lines of containers are joined", "[diagnose][input_file]") {
  const std::string text = log_text(), time = "2026-11-21T00:00:00.000000000Z ";
  const Told whole = diagnosed_text(time + "stderr F " + replaced(text, "\n", "\n" + time + "stderr F "));
  // What the other stream says in the middle of a line is no part of it.
  const std::string cut = "\n" + time + "stdout F step 3\n" + time + "stderr F ";
  std::string parts = time + "stderr F " + replaced(text, "\n", "\n" + time + "stderr F ");
  parts = replaced(parts, "F node", "P node");
  parts = replaced(parts, "count ", "cou" + replaced(cut, "stderr F", "stderr P") + "nt ");
  parts = replaced(parts, "[nranks", cut + "[nranks");
  parts = replaced(parts, "- Init", cut + "- Init");
  const Told told = diagnosed_text(parts);
  CHECK(told.sentence == whole.sentence);
  CHECK(told.sentence.find("512") != std::string::npos);
  // One whose end is missing is told too.
  CHECK(diagnosed_text(time + "stderr P node1:1:1 [0] NCCL WARN Cuda failure 'out of memory'").sentence ==
        diagnosed_text(time + "stderr F node1:1:1 [0] NCCL WARN Cuda failure 'out of memory'").sentence);
  CHECK(
      mentions(diagnosed_text("[rank6]:[E8 1: a.cpp:9]\n[PG 6]\nCUDA error: misaligned address").sentence, "rank 6:"));
  CHECK(mentions(diagnosed_text("Rank 3 is running collective:\nF(A,\nbut Rank 6 is running collective:\nF(B").sentence,
                 "rank 3 runs F(A, rank 6 runs F(B"));
  const std::string rest = "\n[Rank 7] ncclCommInitRank comm 0x1 rank 7 nranks 8 cudaDev 0 commId 0x2 - Init START";
  const Told torn = diagnosed_text("a:1:1 [0] NCCL INFO [10:00:00] b:2:2 [1] NCCL INFO NCCL git version" + rest);
  CHECK(mentions(torn.sentence, "rank 7 "));
  CHECK(mentions(diagnosed_text("[0;36m(Worker_TP2 pid=4)[0;0m CUDA error: no").sentence, "on rank 2,"));
}

TEST_CASE("lines that a terminal broke at its width are whole again, rows of a table stay", "[diagnose][input_file]") {
  for (const std::size_t width : {79U, 80U, 100U}) {
    std::string broken = log_text();
    for (std::size_t at = 0, column = 0; at < broken.size(); ++at, ++column) {
      if (column == width && broken[at] != '\n') broken.insert(at, 1, '\n');
      if (broken[at] == '\n') column = static_cast<std::size_t>(-1);
    }
    CHECK(diagnosed_text(broken).sentence == diagnosed_text(log_text()).sentence);
  }
  const std::string row(80, 'x');
  CHECK(diagnosed_text("a 1\n" + row + "\nb 2\n" + row + "\nb 3\n" + row + "\nb 4\nb 5\n").lines == 8);
}

TEST_CASE("a JSON document is read as the lines in its messages", "[diagnose][input_file]") {
  const std::string text = log_text();
  Json records = Json::array(), nested = Json::array(), loki = Json::array();
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    records.push_back({{"host", "node9"}, {"message", line}, {"attributes", {{"msg", line}}}});
    nested.push_back({{"id", "a"}, {"attributes", {{"host", "node9"}, {"textPayload", line}}}});
    loki.push_back({"1700000000000000000", line});
  }
  check_same(diagnosed_text(records.dump()));
  check_same(diagnosed_text(records.dump(2)));
  check_same(diagnosed_text(Json{{"data", nested}}.dump()));
  check_same(diagnosed_text(Json{{"data", {{"result", {{{"stream", {{"job", "a"}}}, {"values", loki}}}}}}}.dump()));
  check_same(diagnosed_text(Json{{"log", text}}.dump() + "\n"));
  check_same(diagnosed_text(Json(text).dump()));
  check_same(diagnosed_text("\xef\xbb\xbf" + records.dump()));
  check_same(diagnosed_text(utf16(records.dump(), true)));
  // As many records as are there of one that is cut.
  const Told cut = diagnosed_text(records.dump().substr(0, records.dump().size() - 2));
  CHECK(cut.sentence == diagnosed_text(text).sentence);
  REQUIRE(cut.troubles.size() == 1);
  CHECK(cut.troubles[0].find("log: its rest") == 0);
  // What only begins like JSON, or is nested without an end, is a text like any other.
  check_same(diagnosed_text("{\"message\": \"a\"}\n" + text));
  check_same(diagnosed_text("[{ it\n" + text));
  CHECK(diagnosed_text(std::string(100000, '[')).lines == 1);
}
