#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace busbar {

/// Samples in bounded memory: every one while there is room, then every second, every fourth, ... in the order in which
/// they came, so that what is kept is spread evenly over the run. Count, sum and largest are of all.
class ThinnedSamples {
 public:
  explicit ThinnedSamples(std::size_t capacity) : capacity_(std::max<std::size_t>(capacity, 2)) {}

  void add(double value) {
    if (count_ % stride_ == 0) {
      if (kept_.size() == capacity_) halve();
      if (count_ % stride_ == 0) kept_.push_back(static_cast<float>(value));
    }
    ++count_;
    sum_ += value;
    largest_ = std::max(largest_, value);
  }

  /// In order of arrival.
  const std::vector<float>& kept() const { return kept_; }
  std::vector<double> sorted() const {
    std::vector<double> values(kept_.begin(), kept_.end());
    std::sort(values.begin(), values.end());
    return values;
  }
  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }
  double largest() const { return largest_; }

 private:
  void halve() {
    for (std::size_t i = 0; 2 * i < kept_.size(); ++i) kept_[i] = kept_[2 * i];
    kept_.resize((kept_.size() + 1) / 2);
    stride_ *= 2;
  }

  std::size_t capacity_;
  std::vector<float> kept_;
  std::uint64_t stride_ = 1;
  std::uint64_t count_ = 0;
  double sum_ = 0;
  double largest_ = 0;
};

}  // namespace busbar
