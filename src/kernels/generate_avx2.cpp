#include "kernels/generate.h"

// Each function is compiled for AVX2 and called only if the processor has it, so that the library as a whole runs on
// every x86-64.

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>
#include <type_traits>

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

/// Where generate writes its vectors: memory, past the caches or not.
template <bool streaming>
struct Store {
  unsigned char* at;
  BUSBAR_AVX2_INLINE void put(__m256i v) {
    auto* const p = reinterpret_cast<__m256i*>(at);
    streaming ? _mm256_stream_si256(p, v) : _mm256_storeu_si256(p, v);
    at += 32;
  }
};

/// How far count_matching reads ahead: between the loads the processor computes the expected elements, and its own
/// prefetcher falls behind (measured on a Zen 3: 0.75 of a plain read's bandwidth without, 0.95 with).
constexpr int kReadAheadBytes = 2048;

/// Where count_matching sends its vectors: to a comparison with memory.
struct Compare {
  const unsigned char* at;
  __m256i difference;
  BUSBAR_AVX2_INLINE void put(__m256i v) {
    _mm_prefetch(reinterpret_cast<const char*>(at) + kReadAheadBytes, _MM_HINT_T0);  // harmless after the end
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

BUSBAR_AVX2_INLINE __m256i load256(const void* p) { return _mm256_load_si256(static_cast<const __m256i*>(p)); }

/// Eight bytes in every half of both lanes: bit 3 of an index into them does not matter.
BUSBAR_AVX2_INLINE __m256i repeat8(const unsigned char* p) {
  std::int64_t eight;
  std::memcpy(&eight, p, 8);
  return _mm256_set1_epi64x(eight);
}

/// The picks of a group, one per byte: elements 0 to 15 in the lower lane, 16 to 31 in the upper one.
BUSBAR_AVX2_INLINE __m256i pick_bytes(const std::uint32_t* picks) {
  const __m256i both = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(picks)));
  return _mm256_and_si256(_mm256_srlv_epi32(both, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4)), _mm256_set1_epi8(7));
}

/// Sixteen picks as two vectors of 32-bit indices; a shuffle sees the three low bits of each.
struct Indices {
  __m256i first;
  __m256i second;
};

/// The indices of elements 0 to 15 of a group; shifted right by 4 they are those of elements 16 to 31.
BUSBAR_AVX2_INLINE Indices pick_lanes(__m128i picks) {
  return {_mm256_cvtepu8_epi32(picks), _mm256_cvtepu8_epi32(_mm_srli_si128(picks, 8))};
}

/// Eight 64-bit elements from tables of their lower and upper halves. The picks come in the order 0 1 4 5 2 3 6 7,
/// which the interleaving within lanes undoes.
template <class Sink>
BUSBAR_AVX2_INLINE void put_wide(__m256i low_table, __m256i high_table, __m256i index, Sink& sink) {
  const __m256i low = _mm256_permutevar8x32_epi32(low_table, index);
  const __m256i high = _mm256_permutevar8x32_epi32(high_table, index);
  sink.put(_mm256_unpacklo_epi32(low, high));
  sink.put(_mm256_unpackhi_epi32(low, high));
}

/// One group of elements of width W from its four words of picks and its row.
template <int W, class Sink>
BUSBAR_AVX2_INLINE void expand(const unsigned char* row, const std::uint32_t* picks, Sink& sink) {
  if constexpr (W == 1) {
    sink.put(_mm256_shuffle_epi8(repeat8(row), pick_bytes(picks)));
  } else if constexpr (W == 2) {
    const __m256i index = pick_bytes(picks);
    const __m256i low = _mm256_shuffle_epi8(repeat8(row), index);
    const __m256i high = _mm256_shuffle_epi8(repeat8(row + 8), index);
    const __m256i front = _mm256_unpacklo_epi8(low, high), back = _mm256_unpackhi_epi8(low, high);
    sink.put(_mm256_permute2x128_si256(front, back, 0x20));
    sink.put(_mm256_permute2x128_si256(front, back, 0x31));
  } else if constexpr (W == 4) {
    const __m256i table = load256(row);
    const Indices index = pick_lanes(_mm_load_si128(reinterpret_cast<const __m128i*>(picks)));
    sink.put(_mm256_permutevar8x32_epi32(table, index.first));
    sink.put(_mm256_permutevar8x32_epi32(table, index.second));
    sink.put(_mm256_permutevar8x32_epi32(table, _mm256_srli_epi32(index.first, 4)));
    sink.put(_mm256_permutevar8x32_epi32(table, _mm256_srli_epi32(index.second, 4)));
  } else {
    const __m256i low = load256(row), high = load256(row + 32);
    const __m128i order = _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
    const __m128i ordered = _mm_shuffle_epi8(_mm_load_si128(reinterpret_cast<const __m128i*>(picks)), order);
    const Indices index = pick_lanes(ordered);
    put_wide(low, high, index.first, sink);
    put_wide(low, high, index.second, sink);
    put_wide(low, high, _mm256_srli_epi32(index.first, 4), sink);
    put_wide(low, high, _mm256_srli_epi32(index.second, 4), sink);
  }
}

/// The streams from which a batch is built.
struct Streams {
  Words words;   ///< data movement: the elements; reductions: the picks
  Words groups;  ///< reductions
};

BUSBAR_AVX2_INLINE Streams streams_from(const Source& source, std::uint64_t first) {
  if (!source.reduces) {
    const Words words = words_from(source, source.stream, first * source.width / 4);
    return {words, words};
  }
  return {words_from(source, kPickStream, pick_word(first)), words_from(source, kGroupStream, first / kGroupElems)};
}

/// W = 0: data movement, where `width` only says how many words a batch has.
template <int W, class Sink>
BUSBAR_AVX2_INLINE void make_batch(const Source& source, Streams& streams, Sink& sink) {
  if constexpr (W == 0) {
    for (std::size_t i = 0; i < source.width * (kBatchElems / 32); ++i) sink.put(next(streams.words));
  } else {
    alignas(32) std::uint32_t picks[8 * kPickWords];
    alignas(32) std::uint32_t rows[8];
    for (std::uint32_t i = 0; i < kPickWords; ++i) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(picks + 8 * i), next(streams.words));
    }
    const __m256i row = rows_of(source.rule, next(streams.groups));
    _mm256_store_si256(reinterpret_cast<__m256i*>(rows), _mm256_mullo_epi32(row, _mm256_set1_epi32(kPicks * W)));
    for (std::uint32_t g = 0; g < 8; ++g) expand<W>(source.rows + rows[g], picks + kPickWords * g, sink);
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

/// Calls `work` with the constants for which make_batch is compiled.
auto with_width(const Source& source, auto work) {
  switch (source.reduces ? source.width : 0) {
    case 0:
      return work(std::integral_constant<int, 0>{});
    case 1:
      return work(std::integral_constant<int, 1>{});
    case 2:
      return work(std::integral_constant<int, 2>{});
    case 4:
      return work(std::integral_constant<int, 4>{});
    default:
      return work(std::integral_constant<int, 8>{});
  }
}

template <class Sink>
void store_all(const Source& source, std::uint64_t first, std::size_t batches, Sink sink) {
  with_width(source, [&](auto width) { store_batches<decltype(width)::value>(source, first, batches, sink); });
}

}  // namespace

void arrange_rows_avx2(Source& source) {
  if (source.width != 2 && source.width != 8) return;
  const std::size_t half = source.width / 2;
  const std::size_t row_bytes = kPicks * source.width;
  for (unsigned char* row = source.rows; row < source.rows + (kPaletteSize + 1) * row_bytes; row += row_bytes) {
    unsigned char elements[kPicks * 8];
    std::memcpy(elements, row, row_bytes);
    // Two tables of halves, because a shuffle looks up 8 or 32 bits.
    for (std::size_t a = 0; a < kPicks; ++a) {
      std::memcpy(row + a * half, elements + a * source.width, half);
      std::memcpy(row + (kPicks + a) * half, elements + a * source.width + half, half);
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
  return with_width(source,
                    [&](auto width) { return compare_batches<decltype(width)::value>(source, first, batches, data); });
}

}  // namespace busbar

#endif
