#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace busbar {

/// Numbers that are the same on every rank and with every standard library: the standard fixes the engine, but not its
/// distributions, so none is used.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// Uniform in [0, n); n > 0.
  std::uint64_t below(std::uint64_t n) {
    // Numbers from the incomplete last stretch would favor small results.
    const std::uint64_t limit = ~std::uint64_t{0} - (~std::uint64_t{0} % n + 1) % n;
    std::uint64_t value = engine_();
    while (value > limit) value = engine_();
    return value % n;
  }

  /// Uniform in [0, 1).
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace busbar
