// Would show: a fill or check that is slower than memory, so that verifying costs more than what is verified.
//
// Each benchmark times the fill (or check) of a buffer of at least four times the last-level cache and, alternating with it in the
// same loop, memset and memcpy (or a plain read) of the same buffer: on a shared machine only figures taken side by side
// can be compared. Counters: GB/s of both (1e9 B/s, median over the iterations), and their ratio.

#include <benchmark/benchmark.h>

#include "kernels/host.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

namespace {

using namespace busbar;

std::size_t buffer_bytes() {
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return std::max<std::size_t>(std::size_t{128} << 20, cache > 0 ? 4 * static_cast<std::size_t>(cache) : 0);
}

struct Free {
  void operator()(void* p) const { std::free(p); }
};

std::unique_ptr<void, Free> touched_buffer() {
  std::unique_ptr<void, Free> memory(std::aligned_alloc(4096, buffer_bytes()));
  std::memset(memory.get(), 1, buffer_bytes());
  return memory;
}

template <class Work>
double seconds(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  benchmark::ClobberMemory();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double rate(const std::vector<double>& times_s) { return static_cast<double>(buffer_bytes()) / median(times_s) / 1e9; }

/// Reads every word; the compiler vectorises the four sums.
std::uint64_t plain_read(const void* data) {
  const auto* words = static_cast<const std::uint64_t*>(data);
  std::uint64_t sums[16] = {};
  for (std::size_t i = 0; i < buffer_bytes() / 8; i += 16) {
    for (std::size_t j = 0; j < 16; ++j) sums[j] ^= words[i + j];
  }
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) all ^= sum;
  return all;
}

void fill_beside_memset(benchmark::State& state, DType dtype, std::optional<Op> op, int nranks) {
  const Pattern pattern = make_pattern(dtype, op, nranks, 7);
  const auto buffer = touched_buffer();
  const auto source = touched_buffer();
  std::vector<double> fill_s, memset_s, memcpy_s;
  for (auto _ : state) {
    fill_s.push_back(seconds([&] { fill(pattern, 1 % nranks, 0, buffer_bytes() / size_of(dtype), buffer.get()); }));
    memset_s.push_back(seconds([&] { std::memset(buffer.get(), static_cast<int>(fill_s.size()), buffer_bytes()); }));
    memcpy_s.push_back(seconds([&] { std::memcpy(buffer.get(), source.get(), buffer_bytes()); }));
    state.SetIterationTime(fill_s.back());
  }
  state.counters["fill"] = rate(fill_s);
  state.counters["memset"] = rate(memset_s);
  state.counters["memcpy"] = rate(memcpy_s);
  state.counters["ratio"] = rate(fill_s) / rate(memset_s);
}

void check_beside_read(benchmark::State& state, DType dtype, std::optional<Op> op, int nranks) {
  const Pattern pattern = make_pattern(dtype, op, nranks, 7);
  const auto buffer = touched_buffer();
  // A reduction over one rank is that rank's data.
  const Block block{0, buffer_bytes() / size_of(dtype), op && nranks == 1 ? kReduction : 0, 0};
  fill(pattern, 0, 0, block.count, buffer.get());
  std::vector<double> check_s, read_s;
  for (auto _ : state) {
    CheckResult result;
    check_s.push_back(seconds([&] { result = check(pattern, block, buffer.get()); }));
    if (result.wrong != 0) state.SkipWithError("the data are wrong");
    read_s.push_back(seconds([&] { benchmark::DoNotOptimize(plain_read(buffer.get())); }));
    state.SetIterationTime(check_s.back());
  }
  state.counters["check"] = rate(check_s);
  state.counters["read"] = rate(read_s);
  state.counters["ratio"] = rate(check_s) / rate(read_s);
}

void add(const std::string& name, void (*run)(benchmark::State&, DType, std::optional<Op>, int), DType dtype,
         std::optional<Op> op, int nranks) {
  benchmark::RegisterBenchmark(name.c_str(), run, dtype, op, nranks)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(15);
}

}  // namespace

int main(int argc, char** argv) {
  for (const DType dtype : kAllDTypes) {
    const std::string type(name(dtype));
    add("fill/sum/" + type, fill_beside_memset, dtype, Op::sum, 16);
    add("check/sum/" + type, check_beside_read, dtype, Op::sum, 1);
  }
  add("fill/moved", fill_beside_memset, DType::float32, std::nullopt, 16);
  add("check/moved", check_beside_read, DType::float32, std::nullopt, 16);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
