#include "kernels/generate.h"

#include "kernels/dtype_and_op.h"

#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace busbar {
namespace {

/// Eight words of a stream, which a compiler makes at once with the instructions of the function that calls this.
inline void make_words(StreamKey key, std::uint64_t first, std::uint32_t (&words)[8]) {
  // Unrolled, g++ would not make vectors of these loops.
  key.offset += static_cast<std::uint32_t>(first) * kCounterStep;
#pragma GCC unroll 1
  for (std::uint32_t i = 0; i < 8; ++i) words[i] = stream_word(key, i);
}

/// Writes elements as memory has them, in steps of 32 bytes.
struct PortableOutput {
  unsigned char* at;

  void put_words(const std::uint32_t (&words)[8]) {
    std::memcpy(at, words, sizeof words);
    at += sizeof words;
  }
  template <class T>
  void put_group(const unsigned char* row, const std::uint32_t* picks) {
    for (std::uint32_t j = 0; j < kGroupElems; ++j, at += sizeof(T)) {
      const std::uint32_t a = (picks[j % 16 / 4] >> pick_shift(j)) % kPicks;
      std::memcpy(at, row + a * sizeof(T), sizeof(T));
    }
  }
};

/// `T`: an unsigned integer as wide as an element.
template <class T, class Output>
void make(const Source& source, std::uint64_t first, std::size_t batches, Output out) {
  std::uint32_t words[8], rows[8];
  std::uint64_t word = source.reduces ? pick_word(first) : first * sizeof(T) / 4, group = first / kGroupElems;
  const StreamKey key = stream_key(source.seed, source.reduces ? kPickStream : source.stream, word);
  if (!source.reduces) {
    for (std::size_t left = batches * kBatchElems * sizeof(T) / sizeof words; left > 0; --left, word += 8) {
      make_words(key, word, words);
      out.put_words(words);
    }
    return;
  }
  const StreamKey group_key = stream_key(source.seed, kGroupStream, group);
  const RowRule rule = source.rule;
  for (; batches > 0; --batches, group += 8) {
    make_words(group_key, group, words);
    if (rule.reduction) {
#pragma GCC unroll 1
      for (std::uint32_t g = 0; g < 8; ++g) rows[g] = group_b(words[g]);
    } else {
#pragma GCC unroll 1
      for (std::uint32_t g = 0; g < 8; ++g) rows[g] = row_of({false, rule.rank, rule.nranks, rule.window}, words[g]);
    }
    for (std::uint32_t g = 0; g < 8; g += 2, word += 8) {
      make_words(key, word, words);
      for (std::uint32_t i = 0; i < 2; ++i) {
        out.template put_group<T>(source.rows + rows[g + i] * (kPicks * sizeof(T)), words + i * kPickWords);
      }
    }
  }
}

template <class T>
void make_portable(const Source& source, std::uint64_t first, std::size_t batches, unsigned char* dst, bool) {
  make<T>(source, first, batches, PortableOutput{dst});
}

#if defined(__x86_64__)

// Called only if the processor has AVX2, so that the library as a whole runs on every x86-64.
#define BUSBAR_AVX2 [[gnu::target("avx2"), gnu::always_inline]] inline

struct Avx2Output {
  unsigned char* at;
  bool streaming;  ///< past the caches

  BUSBAR_AVX2 void put(__m256i v) {
    auto* const p = reinterpret_cast<__m256i*>(at);
    streaming ? _mm256_stream_si256(p, v) : _mm256_storeu_si256(p, v);
    at += sizeof v;
  }
  BUSBAR_AVX2 static __m256i load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  BUSBAR_AVX2 static __m128i load_half(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }

  [[gnu::target("avx2")]] void put_words(const std::uint32_t (&words)[8]) { put(load(words)); }

  /// The lower lanes of both, then the upper ones: interleaving works within lanes.
  BUSBAR_AVX2 void put_lanes(__m256i a, __m256i b) {
    put(_mm256_permute2x128_si256(a, b, 0x20));
    put(_mm256_permute2x128_si256(a, b, 0x31));
  }

  /// Bytes: the picks of elements 0 to 15 are in the lower lane, those of 16 to 31 in the upper one. Else a lookup
  /// finds eight elements, or halves of them, at once; it sees the three low bits of an index.
  template <class T>
  [[gnu::target("avx2")]] void put_group(const unsigned char* row, const std::uint32_t* picks) {
    const __m128i bytes = load_half(picks);
    const __m256i both = _mm256_broadcastsi128_si256(bytes), shifts = _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4);
    const __m256i byte_index = _mm256_and_si256(_mm256_srlv_epi32(both, shifts), _mm256_set1_epi8(7));
    const __m256i low = _mm256_cvtepu8_epi32(bytes), high = _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8));
    const __m256i index[4] = {low, high, _mm256_srli_epi32(low, 4), _mm256_srli_epi32(high, 4)};
    if constexpr (sizeof(T) == 1) {
      put(_mm256_shuffle_epi8(_mm256_broadcastq_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(row))),
                              byte_index));
    } else if constexpr (sizeof(T) == 2) {
      // The first bytes of the row's elements, then their second bytes.
      const __m256i planes = _mm256_broadcastsi128_si256(
          _mm_shuffle_epi8(load_half(row), _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15)));
      const __m256i first = _mm256_shuffle_epi8(planes, byte_index);
      const __m256i second = _mm256_shuffle_epi8(planes, _mm256_or_si256(byte_index, _mm256_set1_epi8(8)));
      put_lanes(_mm256_unpacklo_epi8(first, second), _mm256_unpackhi_epi8(first, second));
    } else if constexpr (sizeof(T) == 4) {
      for (const __m256i& i : index) put(_mm256_permutevar8x32_epi32(load(row), i));
    } else {
      const __m256i halves = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
      const __m256i front = _mm256_permutevar8x32_epi32(load(row), halves);
      const __m256i back = _mm256_permutevar8x32_epi32(load(row + 32), halves);
      const __m256i lower_table = _mm256_permute2x128_si256(front, back, 0x20);
      const __m256i upper_table = _mm256_permute2x128_si256(front, back, 0x31);
      for (const __m256i& i : index) {
        const __m256i lower = _mm256_permutevar8x32_epi32(lower_table, i);
        const __m256i upper = _mm256_permutevar8x32_epi32(upper_table, i);
        put_lanes(_mm256_unpacklo_epi32(lower, upper), _mm256_unpackhi_epi32(lower, upper));
      }
    }
  }
};

template <class T>
[[gnu::target("avx2"), gnu::flatten]] void make_avx2(const Source& source, std::uint64_t first, std::size_t batches,
                                                     unsigned char* dst, bool streaming) {
  make<T>(source, first, batches, Avx2Output{dst, streaming});
  if (streaming) _mm_sfence();
}
#undef BUSBAR_AVX2

#else

template <class T>
void make_avx2(const Source& source, std::uint64_t first, std::size_t batches, unsigned char* dst, bool) {
  make_portable<T>(source, first, batches, dst, false);
}

#endif

}  // namespace

Isa best_isa() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") ? Isa::avx2 : Isa::portable;
#else
  return Isa::portable;
#endif
}

Source make_source(const Pattern& pattern, int rank, Isa isa) {
  Source source;
  source.isa = isa;
  source.width = size_of(pattern.dtype);
  source.reduces = pattern.reduces;
  source.seed = pattern.seed;
  source.stream = static_cast<std::uint32_t>(rank);
  if (!pattern.reduces) return source;

  source.rule = row_rule(pattern, rank);
  const std::uint32_t nrows = source.rule.reduction ? kPaletteSize : kPaletteSize + 1;
  unsigned char* at = source.rows;
  for (std::uint32_t row = 0; row < nrows; ++row) {
    for (std::uint32_t a = 0; a < kPicks; ++a, at += source.width) {
      const std::uint64_t entry = row_entry(pattern, source.rule.reduction, row, a);
      std::memcpy(at, &entry, source.width);
    }
  }
  return source;
}

void generate(const Source& source, std::uint64_t first, std::size_t batches, void* dst, bool streaming) {
  with_bits_of(source.width, [&](auto bits) {
    const auto make = source.isa == Isa::avx2 ? make_avx2<decltype(bits)> : make_portable<decltype(bits)>;
    make(source, first, batches, static_cast<unsigned char*>(dst), streaming);
  });
}

}  // namespace busbar
