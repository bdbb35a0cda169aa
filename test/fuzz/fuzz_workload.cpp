// Catches: a trace that crashes one of its readers or what is concluded from it, times that are not in a step or
// negative, control letters that reach a terminal, and a job that is not read as it was written.

#include "common/base/error.h"
#include "driver/workload/join_ranks.h"
#include "driver/workload/trace_rank.h"
#include "driver/workload/workload.h"
#include "fuzz_main.h"
#include "seed_files.h"

#include <cmath>
#include <utility>

using namespace busbar;

const long kFuzzRounds = 3000;

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds;
  for (const char* ending : {".json", ".log", ".yaml", ".pickle", ".gz", ".zst"}) {
    for (std::string& text : seed_files("workload", ending)) seeds.push_back(std::move(text));
  }
  // What libFuzzer found to reach more of the readers (docs/evidence/workload.md).
  const std::filesystem::path found = std::filesystem::path(BUSBAR_TEST_FOLDER) / "workload/found.tar.xz";
  for (const InputFile& input : unpacked(std::vector{found}))
    seeds.push_back(read_piece(input.opens, kMostFileBytes).text);
  return seeds;
}

namespace {

std::string wrong_in(const Workload& job) {
  for (const WorkloadStep& s : job.steps) {
    if (!s.on_gpu) continue;
    for (const double part_s : {s.computing_s, s.exposed_s, s.copying_s, s.idle_s, s.overlapped_s}) {
      if (!(part_s >= 0) || part_s > s.time_s * (1 + 1e-6) + 1e-8) return "a part of a step that is no part of it";
    }
    const double sum_s = s.computing_s + s.exposed_s + s.copying_s + s.idle_s;
    if (std::abs(sum_s - s.time_s) > 1e-6 * s.time_s + 1e-8) return "parts that are not the step";
  }
  for (const unsigned char c : workload_text(job, 100)) {
    if (c < 0x20 && c != '\n') return "a control letter in the text";
  }
  const std::string yaml = workload_yaml(job);
  try {
    const Workload read = read_workload(yaml, "job.yaml");
    if (read.operations.size() != job.operations.size() && yaml.find("larger than 1 MiB") == std::string::npos)
      return "operations are lost";
  } catch (const Error& error) {
    return std::string("a job that cannot be read: ") + error.what();
  }
  workload_html(job, {}, "");
  workload_json(job);
  return {};
}

}  // namespace

std::string fuzz_one(std::string_view input) {
  try {
    read_workload(input, "input");
  } catch (const Error&) {
  }
  try {
    JoinRanks join;
    std::vector<TraceRank> ranks = read_trace(input_in_memory("input", input));
    for (TraceRank& rank : ranks) {
      TraceRank other = rank;
      other.rank = rank.rank + 1;
      join.add(std::move(rank));
      if (ranks.size() == 1) join.add(std::move(other));
    }
    return wrong_in(join.finish());
  } catch (const Error&) {
  }
  return {};
}
