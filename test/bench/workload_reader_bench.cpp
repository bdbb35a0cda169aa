// Would show: a reader of traces that costs much more than splitting JSON does. Aim: 0.8 of the rate of the JSON
// library's SAX parser, which does nothing with what it finds.
//
// Each iteration reads one generated Kineto trace from memory twice: as `busbar workload import` does, and with a
// handler that does nothing, from contiguous memory. Counters: GB/s of processor time of both (1e9 B/s, of the fastest
// iteration), and their ratio.

#include "driver/workload/trace_rank.h"
#include "thread_time.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <istream>
#include <iterator>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace busbar;

constexpr std::size_t kTrace = std::size_t{64} << 20;  ///< [bytes]

/// As PyTorch 2.6 writes it with shapes: of 100 events 55 operations, 25 launches, 18 kernels, 2 calls of c10d.
std::string some_trace(int operations, int launches, int kernels) {
  std::string text =
      R"({"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8}, "traceEvents": [)";
  const auto out = std::back_inserter(text);
  std::uint64_t at_ns = 1'700'000'000'000'000;
  const auto begin = [&](std::string_view category, std::string_view name, int tid) {
    at_ns += 1777;
    fmt::format_to(
        out,
        R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 2910249, "tid": {}, "ts": {}.{:03}, "dur": {}.{:03}, "args": {{)",
        category, name, tid, at_ns / 1000, at_ns % 1000, at_ns % 31, at_ns % 997);
  };
  int id = 1;
  for (int step = 0; text.size() < kTrace; ++step) {
    begin("user_annotation", fmt::format("ProfilerStep#{}", step), 1);
    text += R"("External id": 1}},)";
    for (int block = 0; block < 500; ++block) {
      for (int i = 0; i < operations; ++i) {
        begin("cpu_op", i % 3 == 0 ? "aten::linear" : i % 3 == 1 ? "aten::addmm" : "aten::view", 1);
        fmt::format_to(
            out,
            R"("External id": {}, "Record function id": 0, "Concrete Inputs": ["", "", "[]"], "Input type": ["c10::BFloat16", "c10::BFloat16", "Scalar"], "Input Dims": [[4096, 5120], [5120, 1280], []], "Ev Idx": {}}}}},)",
            id, id);
        ++id;
      }
      for (int i = 0; i < launches; ++i) {
        begin("cuda_runtime", "cudaLaunchKernel", 1);
        fmt::format_to(out, R"("External id": {}, "cbid": 211, "correlation": {}}}}},)", id, id);
      }
      for (int i = 0; i < kernels; ++i) {
        begin("kernel",
              i % 9 == 8
                  ? "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
                  : "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>",
              7);
        fmt::format_to(
            out,
            R"("External id": {}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": {}, "registers per thread": 32, "shared memory": 0, "blocks per SM": 8.727273, "warps per SM": 34.909092, "grid": [1152, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 55}}}},)",
            id, id);
      }
      for (int i = 0; i < 2; ++i) {
        begin("cpu_op", "record_param_comms", 2);
        fmt::format_to(
            out,
            R"("External id": {}, "Collective name": "allreduce", "dtype": "BFloat16", "Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]", "Group size": 8, "In msg nelems": 6637568, "Out msg nelems": 6637568, "In split size": "[]", "Out split size": "[]"}}}},)",
            id);
      }
    }
  }
  begin("cpu_op", "aten::end", 1);
  return text + "}}]}";
}

/// The blocks that read_kineto gets, as a stream.
class Blocks : public std::streambuf {
 public:
  explicit Blocks(NextBytes next) : next_(std::move(next)) {}

 private:
  int_type underflow() override {
    const std::string_view block = next_();
    char* const begin = const_cast<char*>(block.data());
    setg(begin, begin, begin + block.size());
    return block.empty() ? traits_type::eof() : traits_type::to_int_type(*begin);
  }

  NextBytes next_;
};

/// Does nothing with what it is given.
struct Nothing : nlohmann::json_sax<nlohmann::json> {
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }
};

void read_beside_splitting(benchmark::State& state, const std::string& trace) {
  std::vector<double> read_s, split_s, whole_s;
  std::size_t calls = 0;
  std::string_view rest;
  const auto next = [&] {
    const std::string_view block = rest.substr(0, std::size_t{1} << 20);
    rest.remove_prefix(block.size());
    return block;
  };
  for (auto _ : state) {
    whole_s.push_back(seconds([&] {
      Nothing nothing;
      benchmark::DoNotOptimize(nlohmann::json::sax_parse(trace.data(), trace.data() + trace.size(), &nothing));
    }));
    rest = trace;
    split_s.push_back(seconds([&] {
      Nothing nothing;
      Blocks blocks(next);
      std::istream stream(&blocks);
      benchmark::DoNotOptimize(nlohmann::json::sax_parse(stream, &nothing));
    }));
    rest = trace;
    read_s.push_back(seconds([&] { calls = read_kineto(next, "trace").calls.size(); }));
    state.SetIterationTime(read_s.back());
  }
  const double read = *std::min_element(read_s.begin(), read_s.end());
  state.counters["GB/s"] = static_cast<double>(trace.size()) / read / 1e9;
  state.counters["of SAX"] = *std::min_element(split_s.begin(), split_s.end()) / read;
  state.counters["of SAX in memory"] = *std::min_element(whole_s.begin(), whole_s.end()) / read;
  state.counters["calls"] = static_cast<double>(calls);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const std::string training = some_trace(55, 25, 18), kernels = some_trace(0, 0, 100);
  const auto add = [](const char* name, const std::string& trace) {
    benchmark::RegisterBenchmark(name, read_beside_splitting, trace)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond)
        ->Iterations(4);
  };
  add("a training step", training);
  add("nothing but kernels", kernels);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
