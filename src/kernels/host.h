#pragma once

#include "kernels/pattern.h"

#include <cstddef>
#include <cstdint>

namespace busbar {

/// What one comparison found. Indices are elements of the receive part; `first` and `last` count only when wrong > 0.
struct CheckResult {
  std::uint64_t wrong = 0;
  std::uint64_t first = ~std::uint64_t{0};
  std::uint64_t last = 0;

  void merge(const CheckResult& other) {
    wrong += other.wrong;
    if (other.wrong > 0) {
      first = other.first < first ? other.first : first;
      last = other.last > last ? other.last : last;
    }
  }
};

/// Writes elements [first, first + count) of rank's send data to dst, which may be unaligned.
void fill(const Pattern& pattern, int rank, std::size_t first, std::size_t count, void* dst);

/// Writes `count` times the op's neutral element (zero bits if nothing is reduced): data that does not change however
/// often it is reduced in place.
void fill_neutral(const Pattern& pattern, std::size_t count, void* dst);

/// Compares recv[block.at, block.at + block.count) with what the block says. `recv` is element 0 of the receive part.
CheckResult check(const Pattern& pattern, const Block& block, const void* recv);

/// The bits of element `index` of the array at `data`.
std::uint64_t load_bits(const void* data, std::size_t index, std::size_t width);

/// Whether `got` counts as right if `want` is expected: bit for bit, or within the tolerance.
bool counts_as(const Pattern& pattern, std::uint64_t got, std::uint64_t want);

/// How many of the nbytes bytes at data differ from `byte`, and the first and last of them [bytes].
CheckResult check_bytes(const void* data, std::size_t nbytes, unsigned char byte);

/// One element's bits: rank's own (rank >= 0) or the reduction over all (kReduction). Slow; for messages and diagnosis.
std::uint64_t element_bits(const Pattern& pattern, int rank, std::size_t index);

}  // namespace busbar
