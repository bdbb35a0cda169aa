// Catches: a dump of PyTorch's Flight Recorder, or a line of NCCL's Inspector, that crashes its reader or what is
// concluded from it, brings control letters to a terminal, or blames ranks that do not exist.

#include "common/base/error.h"
#include "driver/diagnose/job_book.h"
#include "driver/readers/call_records.h"
#include "fuzz_main.h"

using namespace busbar;
using namespace std::string_literals;

const long kFuzzRounds = 20000;

std::vector<std::string> fuzz_seeds() {
  return {
      R"({"entries":[{"collective_seq_id":41,"process_group":["0","default_pg"],"profiling_name":"nccl:all_reduce",)"
      R"("input_sizes":[[8,4]],"output_sizes":[[8,4]],"input_dtypes":["Float"],"state":"completed","is_p2p":false,)"
      R"("frames":[{"name":"step","filename":"/srv/train.py","line":77}]},{"collective_seq_id":42,"process_group":)"
      R"(["1","tp"],"profiling_name":"nccl:_all_gather_base","input_sizes":[[8]],"output_sizes":[[16]],)"
      R"("input_dtypes":["Half"],"state":"started","is_p2p":false}],"pg_config":{"0":{"desc":"default_pg","ranks":)"
      R"("[0, 1]"},"1":{"desc":"tp","ranks":[0,1]}},"pg_status":{"0":{"last_enqueued_collective":"42"}},"rank":0})",
      R"({"0":{"pg_config":{"0":{"desc":"default_pg","ranks":"[0, 1]"}},"pg_status":{"0":{"last_enqueued_collective":)"
      R"("7","last_completed_collective":"6"}}},"1":{"pg_config":{"0":{"desc":"default_pg","ranks":"[0, 1]"}}}})",
      R"({"header":{"id":"0x7f8c","rank":2,"n_ranks":8,"nnodes":1},"metadata":{"hostname":"h","pid":7},"coll_perf":)"
      R"({"coll":"AllReduce","coll_sn":1407,"coll_msg_size_bytes":17179869184,"coll_exec_time_us":61974}})",
      // {"pg_config": {"0": {"ranks": "[0, 1]"}}, "entries": [{"collective_seq_id": 300}]}, pickled
      "\x80\x02}(X\x09\0\0\0pg_configq\0}U\x01\x30}U\x05ranksU\x06[0, 1]ssU\x07\x65ntries](}(U\x11\x63ollective_seq_id"
      "M\x2c\x01ueu."s,
  };
}

std::string fuzz_one(std::string_view input) {
  JobBook dumps, lines;
  looks_like_torch_dump(input);
  try {
    for (TorchDump& dump : read_torch_dumps(input, "input")) {
      dumps.add(dump, 0);
      // Another rank with the same calls: what is hostile must be compared as well.
      ++dump.rank;
      dumps.add(dump, 1);
    }
  } catch (const Error&) {
  }
  LogLine line;
  line.fact = OtherLine{.nccl = false, .text = input};
  lines.add(line, 0, 1);
  lines.conclude({}, {});
  const Diagnosis diagnosis = dumps.conclude({}, {});
  for (const int rank : diagnosis.ranks) {
    if (rank < 0) return "a negative rank is blamed";
  }
  for (const unsigned char c : diagnosis.sentence) {
    if (c < 0x20) return "a control letter in the sentence";
  }
  return {};
}
