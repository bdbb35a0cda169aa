#pragma once

#include "driver/workload/trace_rank.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace busbar {

/// The rank of a Kineto trace in a text.
inline TraceRank kineto_rank(std::string_view text, const std::string& name = "trace.json",
                             std::size_t most_spans = kMostSpans) {
  std::string_view rest = text;
  TraceRank rank = read_kineto(
      [&] {
        const std::string_view block = rest.substr(0, std::size_t{1} << 20);
        rest.remove_prefix(block.size());
        return block;
      },
      name, most_spans);
  rank.source.file = name;
  return rank;
}

inline std::string kineto_event(std::string_view category, std::string_view name, double begin_us, double time_us,
                                std::string_view args, int tid = 1) {
  return fmt::format(
      R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 1, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}}}})", category,
      name, tid, begin_us, time_us, args);
}

/// A call as PyTorch records it since 2.2; its group has ranks 0 and 1.
inline std::string kineto_call(std::string_view collective, int id, double begin_us, std::int64_t in,
                               std::int64_t out) {
  return kineto_event(
      "cpu_op", "record_param_comms", begin_us, 5,
      fmt::format(R"("External id": {}, "Collective name": "{}", "In msg nelems": {}, "Out msg nelems": {}, )"
                  R"("Group size": 2, "dtype": "Float", "In split size": "[]", "Out split size": "[]", )"
                  R"("Process Group Name": "0", "Process Group Description": "default_pg", )"
                  R"("Process Group Ranks": "[0, 1]")",
                  id, collective, in, out));
}

inline std::string kineto_kernel(std::string_view name, int id, double begin_us, double time_us) {
  return kineto_event("kernel", name, begin_us, time_us, fmt::format(R"("External id": {}, "device": 0)", id), 7);
}

inline std::string kineto_step(int number, double begin_us, double time_us) {
  return kineto_event("user_annotation", fmt::format("ProfilerStep#{}", number), begin_us, time_us, "");
}

inline std::string kineto_trace(int rank, const std::string& events, int nranks = 2) {
  return fmt::format(R"({{"schemaVersion": 1, "distributedInfo": {{"backend": "nccl", "rank": {}, "world_size": {}}}, )"
                     R"("traceEvents": [{}]}})",
                     rank, nranks, events);
}

}  // namespace busbar
