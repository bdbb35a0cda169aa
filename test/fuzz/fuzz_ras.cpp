// Catches: an answer on RAS's port (which is anybody's) that crashes its reader, makes it slow, or brings control
// letters to a terminal and negative ranks to a verdict; and, of answers in the middle of a log, pieces that are larger
// than the log or more than are kept.

#include "common/base/text.h"
#include "common/watch/ras.h"
#include "driver/diagnose/line_blocks.h"
#include "fuzz_main.h"

using namespace busbar;

const long kFuzzRounds = 20000;

std::vector<std::string> fuzz_seeds() {
  return {
      "NCCL version 2.25.1 compiled with CUDA 12.8\n\nJob summary\n===========\n\nCommunicators... (0.05s)\n\nGroup    "
      " "
      "Comms\n    0         1   RUNNING  INCOMPLETE,MISMATCH\n\nErrors\n======\n\nINCOMPLETE\n  Missing communicator "
      "data "
      "from 1 job process\n  Process 903 on node 10.0.0.2 managing GPU 1\n\n#0-0 (cf264af53edbe986) INCOMPLETE\n  The "
      "missing ranks: 3,4\n\nDEAD\n  Process 903 on node 10.0.0.2 managing GPU 1\n\nWarnings\n========\n\nTIMEOUT\n  "
      "Encountered 2 communication timeouts while gathering communicator data\n\n#0-0 (cf264af53edbe986) MISMATCH\n  "
      "Communicator ranks have different collective operation counts\n  2 ranks have launched up to operation 6650\n  "
      "Rank 1 has launched up to operation 6649 -- GPU 1 managed by process 901 on node 10.0.0.1\n",
      "#0-0 (00000000000000aa) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n  5 ranks "
      "have "
      "not launched any operations\n  2 ranks have launched up to operation 7\n  Rank 0 -- GPU 0 managed by process 5 "
      "on "
      "node n\n  Rank 1 -- [process information not found]\n  Communicator ranks have different status\n  2 ranks have "
      "status RUNNING\n  Rank 3 has status ABORT -- GPU 0 managed by process 5 on node n\n",
      "{\n  \"nccl_version\": \"2.28.9\",\n  \"communicators\": [\n    {\n      \"hash\": \"0x9abc\",\n      \"size\": "
      "3,\n  "
      "    \"ranks\": [\n{\"rank\": 0, \"host\": \"h\", \"pid\": 900, \"status\": {\"init_state\": 7, \"async_error\": "
      "6, "
      "\"abort_flag\": true}, \"collective_counts\": {\"Broadcast\": 1, \"AllReduce\": 5}},\n{\"rank\": 1, \"host\": "
      "\"h\", \"pid\": 901, \"collective_counts\": {\"AllReduce\": 6}}],\n \"missing_ranks\": [\n{\"rank\": 2, "
      "\"host\": "
      "\"h\", \"pid\": 902, \"nvml_dev\": 0\n\"status\": {\"unresponsive\": true, \"considered_dead\": true}}]\n    "
      "}\n  "
      "],\n  \"ras\": {\n    \"timeouts_count\": 1\n  }\n}\n",
      "step 3\nGroup     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n    #  in group  per comm  "
      "per "
      "node  per comm  in group\n    0         1         1         2         2         2   RUNNING      OK\n    1      "
      "   1 "
      "        0         0       255         0     ABORT   ERROR\n\n#1-0 (00000000000000bb) ERROR\n  Rank 300 -- "
      "[process information not found]\n[2026-01-02 03:04:05] PEER_DEAD: Process 9 on node h managing GPU "
      "0\n[2026-01-02 "
      "03:04:05] PEER_UNRESPONSIVE: 10.0.0.1<9> late\n{\n  \"event\": \"PEER_DEAD\",\n  \"peer\": {\n    \"host\": "
      "\"h\",\n    \"pid\": 9\n  },\n  \"details\": \"\"\n}\nstep 4\n",
  };
}

std::string fuzz_one(std::string_view input) {
  RasBlocks blocks;
  for (const std::string_view line : split_text(input, '\n')) blocks.add(line);
  const std::vector<std::string> answers = blocks.take();
  std::size_t bytes = 0;
  for (const std::string& answer : answers) bytes += answer.size();
  if (answers.size() > RasBlocks::kMost || bytes > input.size() + 2) return "more answers than there were";
  // Half of the input as the answer before: what is compared must be hostile too.
  const RasEvidence evidence = read_ras(input, input.substr(input.size() / 2));
  if (evidence.answered != evidence.why_not.empty()) return "neither answered nor why not";
  if (evidence.lines.size() > 100) return "too many lines";
  for (const std::string& line : evidence.lines) {
    if (line.size() > 400) return "a long line";
    for (const unsigned char c : line) {
      if (c < 0x20 || c > 0x7e) return "a control letter";
    }
  }
  for (const int rank : read_ras(input, input).lagging_ranks) {
    if (rank < 0) return "a negative rank";
  }
  for (const int rank : evidence.missing_ranks) {
    if (rank < 0) return "a negative rank that is missing";
  }
  if (evidence.well && !(evidence.doubts.empty() && evidence.dead_pids.empty())) return "well, and not";
  for (const std::int64_t pid : evidence.dead_pids) {
    if (pid < 0) return "a negative process";
  }
  return {};
}
