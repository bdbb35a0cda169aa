// Would catch: an answer of RAS in a log that is not seen, or cut, because of what stands before, behind or in between;
// two answers taken for one; lines of others taken for RAS's; other programs' JSON taken for an answer.

#include "common/base/text.h"
#include "common/watch/ras.h"
#include "driver/diagnose/line_blocks.h"
#include "ras_answer_text.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace busbar;

namespace {

const std::string kLost =
    ras_answer("2.27.5", "0         1         2       1-2         4         3   RUNNING  INCOMPLETE") + R"(INCOMPLETE
  Missing communicator data from 1 job process
  Process 4711 on node 10.8.0.7 managing GPU 1

#0-0 (0000c0ffee000001) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 3 -- GPU 1 managed by process 4711 on node 10.8.0.7

Warnings
========

)";

const std::string kLostJson =
    "{\n  \"nccl_version\": \"2.28.7\",\n  \"communicators\": [\n    {\n      \"hash\": \"0x51\",\n      \"size\": 4,\n"
    "      \"ranks\": [\n      ],\n      \"missing_ranks\": [\n        {\n          \"rank\": 3,\n          \"host\": "
    "\"10.8.0.7\",\n          \"pid\": 4711,\n          \"status\": {\n            \"considered_dead\": true\n         "
    " "
    "}\n        }\n      ]\n    }\n  ],\n  \"ras\": {\n    \"timeouts_count\": 0\n  }\n}\n";

std::vector<std::string> found(std::string_view text) {
  RasBlocks blocks;
  for (const std::string_view line : split_text(text, '\n')) blocks.add(line);
  return blocks.take();
}

std::string decorated(std::string_view text, std::string_view mark) {
  std::string lines;
  for (const std::string_view line : split_text(text, '\n')) lines.append(mark).append(line).append(1, '\n');
  return lines;
}

/// Another line behind each.
std::string between(std::string_view text, std::string_view other) {
  std::string lines;
  for (const std::string_view line : split_text(text, '\n'))
    lines.append(line).append(1, '\n').append(other).append(1, '\n');
  return lines;
}

void check_lost(const std::vector<std::string>& answers, bool json) {
  REQUIRE(answers.size() == 1);
  const RasEvidence told = read_ras(answers[0], "");
  CHECK(told.answered);
  CHECK((json ? told.dead_pids : told.silent_pids) == std::vector<std::int64_t>{4711});
  CHECK(told.missing_ranks == std::vector<int>{3});
}

}  // namespace

TEST_CASE("An answer is found whatever stands around and inside it", "[diagnose][ras]") {
  for (const std::string& answer : {kLost, kLostJson}) {
    const bool json = answer[0] == '{';
    check_lost(found(answer), json);
    check_lost(found("step 1\nstep 2\n" + answer + "Traceback (most recent call last):\n  File \"a.py\", line 3\n"),
               json);
    check_lost(found(between(answer, "epoch 3 loss 1.25 lr 0.001")), json);
    check_lost(found(between(answer, "\n")), json);
    check_lost(found(decorated(answer, "  ")), json);
    for (const char* mark :
         {"[1,0]<stdout>:", "3: ", "> ", "2026-03-04T05:06:07.123456789Z stdout F ", "(worker pid=9, ip=10.8.0.2) "}) {
      INFO(mark);
      check_lost(found(decorated(answer, mark)), json);
    }
    std::string crlf;
    for (const std::string_view line : split_text(answer, '\n')) crlf.append(line).append("\r\n");
    check_lost(found(crlf), json);
  }
}

TEST_CASE("What RAS's own table says is read behind quote marks and numbers of lines", "[diagnose][ras]") {
  std::string numbered;
  int number = 90;
  for (const std::string_view line : split_text(kLost, '\n'))
    numbered.append(std::to_string(++number)).append("  ").append(line).append(1, '\n');
  for (const std::string& text : {kLost, decorated(kLost, "> "), decorated(kLost, "[1,3]<stderr>:"), numbered}) {
    const std::vector<std::string> answers = found(text);
    REQUIRE(answers.size() == 1);
    const RasEvidence told = read_ras(answers[0], "");
    REQUIRE(told.doubts.size() == 1);
    CHECK(told.doubts[0] == "INCOMPLETE in 1 communicator of 4 ranks");
    CHECK(told.silent_pids == std::vector<std::int64_t>{4711});
  }
}

TEST_CASE("Excerpts are answers, too", "[diagnose][ras]") {
  check_lost(found("see:\n" + kLost.substr(kLost.find("Communicators"))), false);
  check_lost(found("see:\n" + kLost.substr(kLost.find("Group"))), false);
  const std::vector<std::string> heading = found("see:\n" + kLost.substr(kLost.find("#0-0")));
  REQUIRE(heading.size() == 1);
  CHECK(read_ras(heading[0], "").missing_ranks == std::vector<int>{3});
  check_lost(found(kLostJson.substr(0, kLostJson.find("  \"ras\""))), true);  // cut
  std::string one_line;
  for (const std::string_view line : split_text(kLostJson, '\n')) one_line.append(trimmed(line)).append(" ");
  check_lost(found("see\n" + one_line), true);
}

TEST_CASE("Answers in turn are answers of their own", "[diagnose][ras]") {
  CHECK(found(kLost + kLost).size() == 2);
  CHECK(found(kLost + "sleep 10\n" + kLostJson + kLostJson).size() == 3);
  CHECK(found(kLost.substr(kLost.find("Group")) + kLost.substr(kLost.find("Group"))).size() == 2);
  std::string many;
  for (std::size_t i = 0; i < 2 * RasBlocks::kMost; ++i) many += kLost;
  CHECK(found(many).size() == RasBlocks::kMost);
}

TEST_CASE("What others write is no answer", "[diagnose][ras]") {
  for (const char* text : {"", "Errors\n======\n", "INCOMPLETE\n", "NCCL version 2.21.5+cuda12.4\n",
                           "NCCL version 2.27.5 compiled with CUDA 12.9\n", "{\n\"a\": {\n\"b\": 1\n}\n}\n", "{\n",
                           "{\"event\": \"PEERING\"}\n", "the Job summary follows\n", "[12] PEER_DEAD\n",
                           "#3-1 (later)\n", "Group  of rows\n"}) {
    INFO(text);
    CHECK(found(text).empty());
  }
  // A brace that stays open hides no answer.
  check_lost(found("config = {\n{\n\"lr\": 1\n" + kLostJson), true);
  // JSON that others log in between does not end one.
  check_lost(found(between(kLost, R"({"level": "info", "step": 3})")), false);
}

TEST_CASE("What RAS's monitor tells is an answer", "[diagnose][ras]") {
  const std::vector<std::string> text =
      found("step 7\n[2026-03-04 05:06:07] PEER_DEAD: Process 815 on node 10.8.0.9 managing GPU 2 \nstep 8\n");
  REQUIRE(text.size() == 1);
  CHECK(read_ras(text[0], "").dead_pids == std::vector<std::int64_t>{815});
  const std::vector<std::string> json = found(
      "step 7\n{\n  \"timestamp\": \"2026-03-04 05:06:07\",\n  \"group\": \"LIFECYCLE\",\n  \"event\": "
      "\"PEER_DEAD\",\n  \"peer\": {\n    \"host\": \"10.8.0.9\",\n    \"pid\": 815,\n    \"cuda_devs\": [2]\n  },\n"
      "  \"details\": \"\"\n}\nstep 8\n");
  REQUIRE(json.size() == 1);
  CHECK(read_ras(json[0], "").dead_pids == std::vector<std::int64_t>{815});
}
