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

constexpr std::size_t kChunkBytes = 4096;

/// Fills of at least so many bytes bypass the caches, as memset's do: they would evict everything and read each line
/// before writing it.
constexpr std::size_t kStreamingBytes = std::size_t{8} << 20;

/// A run of elements that generate can make in one call, or part of a batch.
struct Run {
  std::uint64_t first = 0;
  std::size_t count = 0;
  bool whole_batches = false;
};

/// The longest run at the start of [first, first + count).
Run next_run(std::uint64_t first, std::size_t count) {
  const std::size_t into_batch = first % kBatchElems;
  if (into_batch != 0 || count < kBatchElems) return {first, std::min(count, kBatchElems - into_batch), false};
  const std::uint64_t to_segment_end = kSegmentElems - first % kSegmentElems;
  return {first, static_cast<std::size_t>(std::min<std::uint64_t>(to_segment_end, count / kBatchElems * kBatchElems)),
          true};
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

/// Checks elements [first, first + count) of the source, all in one batch.
CheckResult check_batch(const Pattern& pattern, const Source& source, std::uint64_t first, std::size_t count,
                        const unsigned char* got, std::uint64_t index) {
  alignas(64) unsigned char batch[kBatchElems * 8];
  const std::size_t into_batch = first % kBatchElems;
  generate(source, first - into_batch, 1, batch, false);
  const unsigned char* const want = batch + into_batch * source.width;
  if (std::memcmp(got, want, count * source.width) == 0) return {};
  const auto same = [&](std::uint64_t a, std::uint64_t b) { return counts_as(pattern, a, b); };
  return compare(got, want, count, source.width, index, same);
}

}  // namespace

void fill(const Pattern& pattern, int rank, std::size_t first, std::size_t count, void* dst) {
  const Source source = make_source(pattern, rank, best_isa());
  const bool large = count * source.width >= kStreamingBytes;
  auto* at = static_cast<unsigned char*>(dst);
  for (std::uint64_t i = first; count > 0;) {
    const Run run = next_run(i, count);
    const std::size_t nbytes = run.count * source.width;
    if (run.whole_batches) {
      generate(source, i, run.count / kBatchElems, at, large && reinterpret_cast<std::uintptr_t>(at) % 32 == 0);
    } else {
      alignas(64) unsigned char batch[kBatchElems * 8];
      generate(source, i - i % kBatchElems, 1, batch, false);
      std::memcpy(at, batch + i % kBatchElems * source.width, nbytes);
    }
    at += nbytes;
    i += run.count;
    count -= run.count;
  }
}

void fill_neutral(const Pattern& pattern, std::size_t count, void* dst) {
  const std::size_t width = size_of(pattern.dtype);
  const std::uint64_t bits = pattern.reduces ? pattern.neutral : 0;
  if (bits == 0) {
    std::memset(dst, 0, count * width);
    return;
  }
  auto* at = static_cast<unsigned char*>(dst);
  unsigned char chunk[kChunkBytes];
  for (std::size_t i = 0; i < kChunkBytes; i += width) std::memcpy(chunk + i, &bits, width);
  for (std::size_t left = count * width; left > 0;) {
    const std::size_t nbytes = std::min(left, kChunkBytes);
    std::memcpy(at, chunk, nbytes);
    at += nbytes;
    left -= nbytes;
  }
}

CheckResult check(const Pattern& pattern, const Block& block, const void* recv) {
  const Source source = make_source(pattern, block.source, best_isa());
  const auto* got = static_cast<const unsigned char*>(recv) + block.at * source.width;
  CheckResult result;
  std::uint64_t i = block.from;
  const std::uint64_t to_index = block.at - block.from;  // modulo 2^64
  for (std::size_t left = block.count; left > 0;) {
    Run run = next_run(i, left);
    if (run.whole_batches) {
      const std::size_t good = count_matching(source, i, run.count / kBatchElems, got) * kBatchElems;
      run = good > 0 ? Run{i, good, true} : Run{i, kBatchElems, false};
    }
    if (!run.whole_batches) result.merge(check_batch(pattern, source, i, run.count, got, i + to_index));
    got += run.count * source.width;
    i += run.count;
    left -= run.count;
  }
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
