#include "kernels/generate.h"

// Compiled for AVX2 function by function and called only where the processor has it, so that the library as a whole runs
// on every x86-64.

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

#define BUSBAR_AVX2 __attribute__((target("avx2"))) inline
#define BUSBAR_AVX2_INLINE __attribute__((target("avx2"), always_inline)) inline

namespace busbar {
namespace {

/// Eight consecutive words of a stream at a time; `counter` is index * kCounterStep + offset, kept by adding.
struct Words {
  __m256i counter;
  __m256i step;
  __m256i tweak;
};

BUSBAR_AVX2_INLINE __m256i broadcast(std::uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }

BUSBAR_AVX2_INLINE Words words_from(const Source& source, std::uint32_t stream, std::uint64_t index) {
  const StreamKey key = stream_key(source.seed, stream, index);
  const __m256i lanes = _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), broadcast(kCounterStep));
  const std::uint32_t start = static_cast<std::uint32_t>(index) * kCounterStep + key.offset;
  return {_mm256_add_epi32(lanes, broadcast(start)), broadcast(8 * kCounterStep), broadcast(key.tweak)};
}

BUSBAR_AVX2_INLINE __m256i next(Words& words) {
  __m256i x = words.counter;
  words.counter = _mm256_add_epi32(x, words.step);
  x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
  x = _mm256_xor_si256(_mm256_mullo_epi32(x, broadcast(kMix1)), words.tweak);
  x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 13));
  x = _mm256_mullo_epi32(x, broadcast(kMix2));
  return _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
}

/// Where the vectors of generate go: into memory, past the caches or not.
template <bool streaming>
struct Store {
  unsigned char* at;
  BUSBAR_AVX2_INLINE void put(__m256i v) {
    auto* const p = reinterpret_cast<__m256i*>(at);
    streaming ? _mm256_stream_si256(p, v) : _mm256_storeu_si256(p, v);
    at += 32;
  }
};

/// Where the vectors of count_matching go: against memory.
struct Compare {
  const unsigned char* at;
  __m256i difference;
  BUSBAR_AVX2_INLINE void put(__m256i v) {
    const __m256i got = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    difference = _mm256_or_si256(difference, _mm256_xor_si256(v, got));
    at += 32;
  }
};

/// The row of each of the eight groups with these words (row_of).
BUSBAR_AVX2_INLINE __m256i rows_of(const RowRule& rule, __m256i words) {
  const __m256i b = _mm256_and_si256(words, _mm256_set1_epi32(15));
  if (rule.reduction) return b;
  const __m256i nranks = broadcast(rule.nranks);
  const __m256i even = _mm256_mul_epu32(words, nranks);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(words, 32), nranks);
  const __m256i c = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
  const __m256i sum = _mm256_add_epi32(c, broadcast(rule.rank));
  const __m256i p = _mm256_min_epu32(sum, _mm256_sub_epi32(sum, nranks));  // below nranks the difference wraps to huge
  const __m256i x = _mm256_add_epi32(_mm256_mullo_epi32(b, broadcast(kCounterStep)), broadcast(kMix1));
  const __m256i row = _mm256_srli_epi32(_mm256_mullo_epi32(_mm256_mullo_epi32(x, x), p), 28);
  return _mm256_blendv_epi8(broadcast(kNeutralRow), row, _mm256_cmpgt_epi32(broadcast(rule.window), p));
}

/// The sixteen picks of one group or, from 16 bytes of picks, of two: one nibble to a byte.
struct Nibbles {
  __m128i first;
  __m128i second;
};

BUSBAR_AVX2_INLINE Nibbles spread(__m128i picks) {
  const __m128i mask = _mm_set1_epi8(15);
  const __m128i low = _mm_and_si128(picks, mask);
  const __m128i high = _mm_and_si128(_mm_srli_epi32(picks, 4), mask);
  return {_mm_unpacklo_epi8(low, high), _mm_unpackhi_epi8(low, high)};
}

BUSBAR_AVX2_INLINE __m128i load128(const void* p) { return _mm_load_si128(static_cast<const __m128i*>(p)); }
BUSBAR_AVX2_INLINE __m256i load256(const void* p) { return _mm256_load_si256(static_cast<const __m256i*>(p)); }

/// Entry (lane's low 4 bits) of a table of sixteen 32-bit numbers.
BUSBAR_AVX2_INLINE __m256i look_up(__m256i low_half, __m256i high_half, __m256i index) {
  const __m256 low = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(low_half, index));
  const __m256 high = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(high_half, index));
  return _mm256_castps_si256(_mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(index, 28))));
}

/// One batch of elements of width W from its sixteen words of picks and its eight rows.
template <int W, class Sink>
BUSBAR_AVX2_INLINE void expand(const Source& source, const std::uint32_t* picks, const std::uint32_t* rows, Sink& sink) {
  constexpr int kRowBytes = kPaletteSize * W;
  if constexpr (W == 1) {
    for (int g = 0; g < 8; g += 2) {
      const Nibbles index = spread(load128(picks + 2 * g));
      const __m128i first = _mm_shuffle_epi8(load128(source.rows + rows[g] * kRowBytes), index.first);
      const __m128i second = _mm_shuffle_epi8(load128(source.rows + rows[g + 1] * kRowBytes), index.second);
      sink.put(_mm256_set_m128i(second, first));
    }
  } else if constexpr (W == 2) {
    for (int g = 0; g < 8; ++g) {
      const unsigned char* const row = source.rows + rows[g] * kRowBytes;
      const __m128i index = spread(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(picks + 2 * g))).first;
      const __m128i low = _mm_shuffle_epi8(load128(row), index);
      const __m128i high = _mm_shuffle_epi8(load128(row + 16), index);
      sink.put(_mm256_set_m128i(_mm_unpackhi_epi8(low, high), _mm_unpacklo_epi8(low, high)));
    }
  } else if constexpr (W == 4) {
    const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    for (int half = 0; half < 16; ++half) {
      const unsigned char* const row = source.rows + rows[half / 2] * kRowBytes;
      const __m256i index = _mm256_srlv_epi32(broadcast(picks[half]), shifts);
      sink.put(look_up(load256(row), load256(row + 32), index));
    }
  } else {
    // In this order the interleaving within 128-bit lanes gives elements 0 to 3, then 4 to 7.
    const __m256i shifts = _mm256_setr_epi32(0, 4, 16, 20, 8, 12, 24, 28);
    for (int half = 0; half < 16; ++half) {
      const unsigned char* const row = source.rows + rows[half / 2] * kRowBytes;
      const __m256i index = _mm256_srlv_epi32(broadcast(picks[half]), shifts);
      const __m256i low = look_up(load256(row), load256(row + 32), index);
      const __m256i high = look_up(load256(row + 64), load256(row + 96), index);
      sink.put(_mm256_unpacklo_epi32(low, high));
      sink.put(_mm256_unpackhi_epi32(low, high));
    }
  }
}

/// The streams that a batch is made of.
struct Streams {
  Words words;   ///< data movement: the elements; reductions: the picks
  Words groups;  ///< reductions
};

BUSBAR_AVX2_INLINE Streams streams_from(const Source& source, std::uint64_t first) {
  if (!source.reduces) {
    const Words words = words_from(source, source.stream, first * source.width / 4);
    return {words, words};
  }
  return {words_from(source, kPickStream, first / 8), words_from(source, kGroupStream, first / kGroupElems)};
}

/// W = 0: data movement, where width only tells how many words a batch has.
template <int W, class Sink>
BUSBAR_AVX2_INLINE void make_batch(const Source& source, Streams& streams, Sink& sink) {
  if constexpr (W == 0) {
    for (std::size_t i = 0; i < source.width * (kBatchElems / 32); ++i) sink.put(next(streams.words));
  } else {
    alignas(32) std::uint32_t picks[16];
    alignas(32) std::uint32_t rows[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(picks), next(streams.words));
    _mm256_store_si256(reinterpret_cast<__m256i*>(picks + 8), next(streams.words));
    _mm256_store_si256(reinterpret_cast<__m256i*>(rows), rows_of(source.rule, next(streams.groups)));
    expand<W>(source, picks, rows, sink);
  }
}

template <int W, class Sink>
BUSBAR_AVX2 void store_batches(const Source& source, std::uint64_t first, std::size_t batches, Sink sink) {
  Streams streams = streams_from(source, first);
  for (; batches > 0; --batches) make_batch<W>(source, streams, sink);
}

template <int W>
BUSBAR_AVX2 std::size_t compare_batches(const Source& source, std::uint64_t first, std::size_t batches,
                                        const void* data) {
  Streams streams = streams_from(source, first);
  Compare sink{static_cast<const unsigned char*>(data), _mm256_setzero_si256()};
  for (std::size_t batch = 0; batch < batches; ++batch) {
    make_batch<W>(source, streams, sink);
    if (_mm256_testz_si256(sink.difference, sink.difference) == 0) return batch;
  }
  return batches;
}

template <class Sink>
void store_all(const Source& source, std::uint64_t first, std::size_t batches, Sink sink) {
  switch (source.reduces ? source.width : 0) {
    case 0:
      return store_batches<0>(source, first, batches, sink);
    case 1:
      return store_batches<1>(source, first, batches, sink);
    case 2:
      return store_batches<2>(source, first, batches, sink);
    case 4:
      return store_batches<4>(source, first, batches, sink);
    default:
      return store_batches<8>(source, first, batches, sink);
  }
}

}  // namespace

void arrange_rows_avx2(Source& source) {
  if (source.width != 2 && source.width != 8) return;
  const std::size_t half = source.width / 2;
  const std::size_t row_bytes = kPaletteSize * source.width;
  for (unsigned char* row = source.rows; row < source.rows + (kPaletteSize + 1) * row_bytes; row += row_bytes) {
    unsigned char elements[kPaletteSize * 8];
    std::memcpy(elements, row, row_bytes);
    // Two tables of halves, because a shuffle looks up 8 or 32 bits.
    for (std::size_t a = 0; a < kPaletteSize; ++a) {
      std::memcpy(row + a * half, elements + a * source.width, half);
      std::memcpy(row + (kPaletteSize + a) * half, elements + a * source.width + half, half);
    }
  }
}

void generate_avx2(const Source& source, std::uint64_t first, std::size_t batches, void* dst, bool streaming) {
  auto* const at = static_cast<unsigned char*>(dst);
  if (!streaming) return store_all(source, first, batches, Store<false>{at});
  store_all(source, first, batches, Store<true>{at});
  _mm_sfence();
}

std::size_t count_matching_avx2(const Source& source, std::uint64_t first, std::size_t batches, const void* data) {
  switch (source.reduces ? source.width : 0) {
    case 0:
      return compare_batches<0>(source, first, batches, data);
    case 1:
      return compare_batches<1>(source, first, batches, data);
    case 2:
      return compare_batches<2>(source, first, batches, data);
    case 4:
      return compare_batches<4>(source, first, batches, data);
    default:
      return compare_batches<8>(source, first, batches, data);
  }
}

}  // namespace busbar

#endif
