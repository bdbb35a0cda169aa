#include "kernels/generate.h"

#include "kernels/dtype_and_op.h"

#include <cstring>

namespace busbar {
namespace {

template <class T>
void generate_moved(const Source& source, std::uint64_t first, std::size_t batches, unsigned char* dst) {
  const std::uint64_t index = first * sizeof(T) / 4;
  const StreamKey key = stream_key(source.seed, source.stream, index);
  const auto low = static_cast<std::uint32_t>(index);
  const std::size_t nwords = batches * kBatchElems * sizeof(T) / 4;
  for (std::size_t i = 0; i < nwords; ++i) {
    const std::uint32_t word = stream_word(key, low + static_cast<std::uint32_t>(i));
    std::memcpy(dst + i * 4, &word, 4);
  }
}

template <class T>
void generate_reduced(const Source& source, std::uint64_t first, std::size_t batches, unsigned char* dst) {
  const std::uint64_t first_pick = pick_word(first);
  const StreamKey pick_key = stream_key(source.seed, kPickStream, first_pick);
  const StreamKey group_key = stream_key(source.seed, kGroupStream, first / kGroupElems);
  auto pick = static_cast<std::uint32_t>(first_pick);
  auto group = static_cast<std::uint32_t>(first / kGroupElems);
  for (std::size_t left = batches * kBatchElems / kGroupElems; left > 0; --left, ++group, pick += kPickWords) {
    const std::uint32_t row = row_of(source.rule, stream_word(group_key, group));
    const unsigned char* const entries = source.rows + row * (kPicks * sizeof(T));
    std::uint32_t picks[kPickWords];
    for (std::uint32_t i = 0; i < kPickWords; ++i) picks[i] = stream_word(pick_key, pick + i);
    for (std::uint32_t j = 0; j < kGroupElems; ++j, dst += sizeof(T)) {
      const std::uint32_t a = (picks[j % 16 / 4] >> pick_shift(j)) % kPicks;
      std::memcpy(dst, entries + a * sizeof(T), sizeof(T));
    }
  }
}

template <class T>
void generate_width(const Source& source, std::uint64_t first, std::size_t batches, unsigned char* dst) {
  if (source.reduces) return generate_reduced<T>(source, first, batches, dst);
  generate_moved<T>(source, first, batches, dst);
}

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
#if defined(__x86_64__)
  if (isa == Isa::avx2) arrange_rows_avx2(source);
#endif
  return source;
}

void generate_portable(const Source& source, std::uint64_t first, std::size_t batches, void* dst) {
  auto* const bytes = static_cast<unsigned char*>(dst);
  with_bits_of(source.width, [&](auto bits) { generate_width<decltype(bits)>(source, first, batches, bytes); });
}

std::size_t count_matching_portable(const Source& source, std::uint64_t first, std::size_t batches, const void* data) {
  unsigned char want[kBatchElems * 8];
  const std::size_t nbytes = kBatchElems * source.width;
  const auto* got = static_cast<const unsigned char*>(data);
  for (std::size_t batch = 0; batch < batches; ++batch, got += nbytes) {
    generate_portable(source, first + batch * kBatchElems, 1, want);
    if (std::memcmp(want, got, nbytes) != 0) return batch;
  }
  return batches;
}

void generate(const Source& source, std::uint64_t first, std::size_t batches, void* dst, bool streaming) {
#if defined(__x86_64__)
  if (source.isa == Isa::avx2) return generate_avx2(source, first, batches, dst, streaming);
#endif
  (void)streaming;
  generate_portable(source, first, batches, dst);
}

std::size_t count_matching(const Source& source, std::uint64_t first, std::size_t batches, const void* data) {
#if defined(__x86_64__)
  if (source.isa == Isa::avx2) return count_matching_avx2(source, first, batches, data);
#endif
  return count_matching_portable(source, first, batches, data);
}

}  // namespace busbar
