// Would show: a fill or check that is slower than memory, so that verifying costs more than what is verified.
//
// Each benchmark times the fill (or check) of a buffer of at least four times the last-level cache and, alternating
// with it in the same loop, memset and memcpy (or a plain read) of the same buffer: on a shared machine only figures
// taken side by side can be compared. Counters: GB/s of each (1e9 B/s, of the fastest iteration), and their ratio.

#include "kernels/host.h"

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace busbar;

std::size_t buffer_bytes() {
  static const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
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

/// By the fastest iteration: what else runs on the machine only slows them down.
double rate(const std::vector<double>& times_s) {
  return static_cast<double>(buffer_bytes()) / *std::min_element(times_s.begin(), times_s.end()) / 1e9;
}

/// Reads every byte, in 32-byte vectors where the processor has them: what check is held against must not be slow.
#if defined(__x86_64__)
__attribute__((target_clones("avx2", "default")))
#endif
std::uint64_t
plain_read(const void* data) {
  using Vector [[gnu::vector_size(32)]] = std::uint64_t;
  const auto* vectors = static_cast<const Vector*>(data);
  const std::size_t nvectors = buffer_bytes() / sizeof(Vector);
  Vector sums[4] = {};
  for (std::size_t i = 0; i < nvectors; i += 4) {
    for (std::size_t j = 0; j < 4; ++j) sums[j] ^= vectors[i + j];
  }
  const Vector all = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
  return all[0] ^ all[1] ^ all[2] ^ all[3];
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
