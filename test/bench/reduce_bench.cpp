// How fast the narrow reductions run beside the one that MPI would use for float: bytes of input per second, both
// measured in turn within one iteration so that a machine that slows down slows both, on buffers that
// fit in L2 and on buffers that fit in no cache.

#include "kernels/host.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace busbar;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kInL2 = 64u << 10;      ///< of each of the two buffers [bytes]
constexpr std::size_t kInMemory = 64u << 20;  ///< the same, beyond the caches

#if defined(__x86_64__)
[[gnu::target("avx2")]]
#endif
void add_floats(const void* in, void* inout, std::size_t count) {
  const auto* source = static_cast<const float*>(in);
  auto* target = static_cast<float*>(inout);
  for (std::size_t i = 0; i < count; ++i) target[i] += source[i];
}

double seconds(ReduceFn reduce, const void* in, void* inout, std::size_t count) {
  const auto start = Clock::now();
  reduce(in, inout, count);
  benchmark::ClobberMemory();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Ones everywhere, so that no result leaves the normal numbers: sums grow until one more is less than half a step.
unsigned char one_byte(DType dtype, std::size_t i) {
  switch (dtype) {
    case DType::half:
      return i % 2 == 0 ? 0x00 : 0x3c;
    case DType::bfloat16:
      return i % 2 == 0 ? 0x80 : 0x3f;
    case DType::f8e4m3:
      return 0x38;
    default:
      return 0x3c;
  }
}

void reduce_beside_float(benchmark::State& state, DType dtype, Op op, bool portable, std::size_t nbytes) {
  std::vector<unsigned char> in(nbytes), inout(nbytes);
  for (std::size_t i = 0; i < nbytes; ++i) in[i] = inout[i] = one_byte(dtype, i);
  std::vector<float> float_in(nbytes / sizeof(float), 1.0F), float_inout(nbytes / sizeof(float), 1.0F);
  const ReduceFn reduce = portable ? portable_narrow_reduction(dtype, op) : narrow_reduction(dtype, op);
  std::vector<double> narrow_s, float_s;
  for (auto _ : state) {
    narrow_s.push_back(seconds(reduce, in.data(), inout.data(), nbytes / size_of(dtype)));
    state.SetIterationTime(narrow_s.back());
    float_s.push_back(seconds(add_floats, float_in.data(), float_inout.data(), float_in.size()));
  }
  // Medians, because on a shared machine some samples hold another program's time slice.
  state.counters["GB/s"] = static_cast<double>(nbytes) / median(narrow_s) / 1e9;
  state.counters["float GB/s"] = static_cast<double>(nbytes) / median(float_s) / 1e9;
  state.counters["of float"] = median(float_s) / median(narrow_s);
}

void register_one(const char* family, DType dtype, Op op, bool portable, std::size_t nbytes) {
  const std::string label = std::string(family) + "/" + std::string(name(dtype)) + "/" + std::string(name(op)) +
                            (nbytes == kInL2 ? "/L2" : "/memory");
  benchmark::RegisterBenchmark(label.c_str(), reduce_beside_float, dtype, op, portable, nbytes)->UseManualTime();
}

const bool kRegistered = [] {
  for (const std::size_t nbytes : {kInL2, kInMemory}) {
    for (const DType dtype : {DType::half, DType::bfloat16, DType::f8e4m3, DType::f8e5m2}) {
      for (const Op op : {Op::sum, Op::prod, Op::max, Op::min}) register_one("reduce", dtype, op, false, nbytes);
    }
  }
  for (const DType dtype : {DType::half, DType::bfloat16, DType::f8e4m3, DType::f8e5m2}) {
    register_one("reduce_portable", dtype, Op::sum, true, kInL2);
  }
  return true;
}();

}  // namespace

BENCHMARK_MAIN();
