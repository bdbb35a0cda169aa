// How fast the narrow reductions run beside the one that MPI would use for float: bytes of input per second, both
// measured in turn within one iteration so that a machine that slows down slows both, on buffers that fit in L2.

#include "kernels/host_reduce.h"

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

constexpr std::size_t kBytes = 128u << 10;  ///< of each of the two buffers
constexpr int kRepeats = 4;                 ///< calls between two looks at the clock

#if defined(__x86_64__)
[[gnu::target("avx2")]]
#endif
[[gnu::optimize("O3")]] void
add_floats(const void* in, void* inout, std::size_t count) {
  const auto* source = static_cast<const float*>(in);
  auto* target = static_cast<float*>(inout);
  for (std::size_t i = 0; i < count; ++i) target[i] += source[i];
}

double seconds(ReduceFn reduce, const void* in, void* inout, std::size_t count) {
  const auto start = Clock::now();
  for (int i = 0; i < kRepeats; ++i) {
    reduce(in, inout, count);
    benchmark::ClobberMemory();
  }
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Ones everywhere, so that no product and no maximum leaves the normal numbers; sums saturate.
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

void reduce_beside_float(benchmark::State& state, DType dtype, Op op, bool portable) {
  std::vector<unsigned char> in(kBytes), inout(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) in[i] = inout[i] = one_byte(dtype, i);
  std::vector<float> float_in(kBytes / sizeof(float), 1.0F), float_inout(kBytes / sizeof(float), 1.0F);
  const ReduceFn reduce = portable ? portable_narrow_reduction(dtype, op) : narrow_reduction(dtype, op);
  std::vector<double> narrow_s, float_s;
  for (auto _ : state) {
    narrow_s.push_back(seconds(reduce, in.data(), inout.data(), kBytes / size_of(dtype)));
    state.SetIterationTime(narrow_s.back());
    float_s.push_back(seconds(add_floats, float_in.data(), float_inout.data(), float_in.size()));
  }
  // Medians, because on a shared machine some samples hold another program's time slice.
  const double nbytes = static_cast<double>(kBytes) * kRepeats;
  state.counters["GB/s"] = nbytes / median(narrow_s) / 1e9;
  state.counters["float GB/s"] = nbytes / median(float_s) / 1e9;
  state.counters["of float"] = median(float_s) / median(narrow_s);
}

const bool kRegistered = [] {
  for (const DType dtype : {DType::half, DType::bfloat16, DType::f8e4m3, DType::f8e5m2}) {
    for (const Op op : {Op::sum, Op::prod, Op::max, Op::min}) {
      const std::string label = "reduce/" + std::string(name(dtype)) + "/" + std::string(name(op));
      benchmark::RegisterBenchmark(label.c_str(), reduce_beside_float, dtype, op, false)->UseManualTime();
    }
    const std::string label = "reduce_portable/" + std::string(name(dtype)) + "/sum";
    benchmark::RegisterBenchmark(label.c_str(), reduce_beside_float, dtype, Op::sum, true)->UseManualTime();
  }
  return true;
}();

}  // namespace
