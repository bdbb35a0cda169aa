#include "kernels/host.h"

#include "kernels/dtype_and_op.h"
#include "kernels/generate.h"
#include "kernels/number.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

namespace busbar {
namespace {

/// Fills of at least so many bytes bypass the caches, as memset's do: they would evict everything and read each line
/// before writing it.
constexpr std::size_t kStreamingBytes = std::size_t{8} << 20;

/// Calls work(i, n) for runs of elements [first, first + count) that generate can make in one call: whole batches, at
/// most `most` elements, or a part of one batch.
void for_runs(std::uint64_t first, std::size_t count, std::size_t most, const auto& work) {
  while (count > 0) {
    const std::size_t into_batch = first % kBatchElems, to_segment_end = kSegmentElems - first % kSegmentElems;
    const std::size_t n = into_batch != 0 || count < kBatchElems
                              ? std::min(count, kBatchElems - into_batch)
                              : std::min({to_segment_end, most, count / kBatchElems * kBatchElems});
    work(first, n);
    first += n;
    count -= n;
  }
}

/// Compares `count` elements of which at least one differs; `index` is the first one's index in the receive part.
template <class Same>
CheckResult compare(const unsigned char* got, const unsigned char* want, std::size_t count, std::size_t width,
                    std::uint64_t index, const Same& same) {
  CheckResult result;
  for (std::size_t i = 0; i < count; ++i) {
    if (!same(load_bits(got, i, width), load_bits(want, i, width))) result.merge({1, index + i, index + i});
  }
  return result;
}

}  // namespace

void fill(const Pattern& pattern, int rank, std::size_t first, std::size_t count, void* dst) {
  const Source source = make_source(pattern, rank, best_isa());
  const bool large = count * source.width >= kStreamingBytes;
  auto* at = static_cast<unsigned char*>(dst);
  for_runs(first, count, kSegmentElems, [&](std::uint64_t i, std::size_t n) {
    if (n % kBatchElems == 0) {
      generate(source, i, n / kBatchElems, at, large && reinterpret_cast<std::uintptr_t>(at) % 32 == 0);
    } else {
      alignas(64) unsigned char batch[kBatchElems * 8];
      generate(source, i - i % kBatchElems, 1, batch, false);
      std::memcpy(at, batch + i % kBatchElems * source.width, n * source.width);
    }
    at += n * source.width;
  });
}

void fill_neutral(const Pattern& pattern, std::size_t count, void* dst) {
  with_bits_of(size_of(pattern.dtype), [&](auto bits) {
    bits = static_cast<decltype(bits)>(pattern.reduces ? pattern.neutral : 0);
    auto* const at = static_cast<unsigned char*>(dst);
    for (std::size_t i = 0; i < count; ++i) std::memcpy(at + i * sizeof bits, &bits, sizeof bits);
  });
}

CheckResult check(const Pattern& pattern, const Block& block, const void* recv) {
  // Elements are made in the first cache; meanwhile the processor reads those to compare next.
  constexpr std::size_t kPieceBytes = kBatchElems * 8;
  alignas(64) unsigned char piece[kPieceBytes];
  const Source source = make_source(pattern, block.source, best_isa());
  const auto same = [&](std::uint64_t a, std::uint64_t b) { return counts_as(pattern, a, b); };
  const auto* got = static_cast<const unsigned char*>(recv) + block.at * source.width;
  CheckResult result;
  for_runs(block.from, block.count, kPieceBytes / source.width, [&](std::uint64_t i, std::size_t n) {
    const std::size_t into_batch = i % kBatchElems, nbytes = n * source.width;
    for (std::size_t line = 0; line < nbytes; line += 64) __builtin_prefetch(got + nbytes + line, 0, 2);
    generate(source, i - into_batch, std::max<std::size_t>(1, n / kBatchElems), piece, false);
    const unsigned char* const want = piece + into_batch * source.width;
    if (std::memcmp(got, want, nbytes) != 0) {
      result.merge(compare(got, want, n, source.width, i - block.from + block.at, same));
    }
    got += nbytes;
  });
  return result;
}

std::uint64_t load_bits(const void* data, std::size_t index, std::size_t width) {
  const unsigned char* const at = static_cast<const unsigned char*>(data) + index * width;
  return with_bits_of(width, [&](auto bits) {
    std::memcpy(&bits, at, sizeof bits);
    return std::uint64_t{bits};
  });
}

bool counts_as(const Pattern& pattern, std::uint64_t got, std::uint64_t want) {
  if (got == want) return true;
  if (pattern.tolerance <= 0) return false;
  return std::fabs(decode(pattern.dtype, got) - decode(pattern.dtype, want)) <= pattern.tolerance;  // NaN is not
}

CheckResult check_bytes(const void* data, std::size_t nbytes, unsigned char byte) {
  constexpr std::size_t kChunkBytes = 4096;
  unsigned char want[kChunkBytes];
  std::memset(want, byte, sizeof want);
  const auto* got = static_cast<const unsigned char*>(data);
  CheckResult result;
  for (std::size_t at = 0; at < nbytes; at += kChunkBytes) {
    const std::size_t count = std::min(nbytes - at, kChunkBytes);
    if (std::memcmp(got + at, want, count) != 0) result.merge(compare(got + at, want, count, 1, at, std::equal_to<>()));
  }
  return result;
}

std::uint64_t element_bits(const Pattern& pattern, int rank, std::size_t index) {
  return element_of(pattern, rank, index, static_cast<unsigned>(size_of(pattern.dtype)));
}

}  // namespace busbar
