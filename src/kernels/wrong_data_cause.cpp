#include "kernels/wrong_data_cause.h"

#include "kernels/element.h"
#include "kernels/number.h"
#include "kernels/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>

namespace busbar {
namespace {

/// One element of the window: where it is, what it holds and what it should hold.
struct Sample {
  std::size_t at = 0;            ///< index in the receive part
  const Block* block = nullptr;  ///< the block that says what it should hold
  std::uint64_t got = 0;
  std::uint64_t want = 0;

  std::uint64_t index() const { return block->from + (at - block->at); }  ///< in the source's send data
};

/// What a cause must explain. `right` are correct elements where the cause would have been at work: in the blocks with
/// wrong elements, and between the first and the last of these if they are many.
struct Evidence {
  std::uint64_t nwrong = 0;   ///< wrong elements in the window
  std::uint64_t njudged = 0;  ///< elements of the window that a block describes
  std::vector<Sample> wrong;
  std::vector<Sample> right;
  bool one_block = true;  ///< all of `wrong` are in one block
};

/// The window is searched in so many slices, for the first and the last wrong element of each.
constexpr std::size_t kSlices = 200;

/// With at least so many wrong elements, right ones outside of their span do not speak against a cause: perhaps only a
/// part of the message is affected, as by one lost chunk of a pipelined transfer. Chance does not explain as many.
constexpr std::uint64_t kManyWrong = 32;

struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
};

Span intersection(const Block& block, Span span) {
  return {std::max(block.at, span.begin), std::min(block.at + block.count, span.end)};
}

/// check() of the part of `block` in `span`; indices are those of the receive part.
CheckResult check_span(const WrongData& data, const Block& block, Span span) {
  const Span part = intersection(block, span);
  if (part.begin >= part.end) return {};
  const Block inner{part.begin - data.first, part.end - part.begin, block.source, block.from + (part.begin - block.at)};
  CheckResult result = check(data.pattern, inner, data.recv);
  result.first += data.first;
  result.last += data.first;
  return result;
}

/// The block that describes element `at` of the receive part, or null.
const Block* block_at(const WrongData& data, std::size_t at) {
  const auto after = std::ranges::upper_bound(data.blocks, at, {}, &Block::at);
  // An empty block may start where the block with elements starts.
  for (auto it = after; it != data.blocks.begin();) {
    --it;
    if (it->count > 0) return at < it->at + it->count ? &*it : nullptr;
  }
  return nullptr;
}

Sample sample_at(const WrongData& data, const Block& block, std::size_t at) {
  Sample sample{at, &block, load_bits(data.recv, at - data.first, size_of(data.pattern.dtype)), 0};
  sample.want = element_bits(data.pattern, block.source, sample.index());
  return sample;
}

void add_if_right(const WrongData& data, Span scope, std::size_t at, Evidence& evidence) {
  if (at < scope.begin || at >= scope.end) return;
  const Block* const block = block_at(data, at);
  const auto same_block = [&](const Sample& wrong) { return wrong.block == block; };
  if (block == nullptr || std::ranges::none_of(evidence.wrong, same_block)) return;
  const Sample sample = sample_at(data, *block, at);
  if (counts_as(data.pattern, sample.got, sample.want)) evidence.right.push_back(sample);
}

Evidence collect_evidence(const WrongData& data) {
  const Span window{data.first, data.first + data.count};
  Evidence evidence;
  CheckResult all;
  for (const Block& block : data.blocks) {
    const Span part = intersection(block, window);
    if (part.begin < part.end) evidence.njudged += part.end - part.begin;
    all.merge(check_span(data, block, window));
  }
  evidence.nwrong = all.wrong;
  if (all.wrong == 0) return evidence;

  const Span span{all.first, all.last + 1};
  const std::size_t step = (span.end - span.begin + kSlices - 1) / kSlices;
  for (std::size_t begin = span.begin; begin < span.end; begin += step) {
    const Span slice{begin, std::min(begin + step, span.end)};
    CheckResult found;
    for (auto block = data.blocks.begin(); block != data.blocks.end(); ++block) {
      if (block->at >= slice.end) break;
      if (block->at + block->count > slice.begin) found.merge(check_span(data, *block, slice));
    }
    if (found.wrong == 0) continue;
    evidence.wrong.push_back(sample_at(data, *block_at(data, found.first), found.first));
    if (found.wrong > 1) evidence.wrong.push_back(sample_at(data, *block_at(data, found.last), found.last));
  }
  const Block* const first_block = evidence.wrong.front().block;
  evidence.one_block =
      std::ranges::all_of(evidence.wrong, [&](const Sample& sample) { return sample.block == first_block; });

  const Span scope = all.wrong >= kManyWrong ? span : window;
  const std::size_t stride = std::max<std::size_t>(1, (scope.end - scope.begin) / kSlices);
  for (std::size_t at = scope.begin; at < scope.end; at += stride) add_if_right(data, scope, at, evidence);
  for (std::size_t i = 0; i < evidence.wrong.size(); i += 4) {
    add_if_right(data, scope, evidence.wrong[i].at + 1, evidence);
    add_if_right(data, scope, evidence.wrong[i].at - 1, evidence);
  }
  return evidence;
}

/// A cause may explain everything by chance. It is named if the odds against that are a thousand to one, after as many
/// attempts as there were candidates.
constexpr double kCertaintyBits = 10;

/// Elements by which data may be shifted, either way.
constexpr std::int64_t kMaxShift = 4096;

/// More wrong elements than this are not stray bit flips.
constexpr std::uint64_t kMaxFlipped = 16;

struct Suspect {
  WrongDataCause diagnosis;
  double bits = 0;         ///< of evidence: the odds against a match of all samples by chance
  double ncandidates = 1;  ///< tried
};

/// Everything a hypothesis reads, and the suspects that it adds to.
struct Case {
  const WrongData& data;
  const Evidence& evidence;
  double bits_per_sample = 0;
  std::vector<Suspect> suspects;

  double bits() const { return bits_per_sample * static_cast<double>(evidence.wrong.size()); }
};

bool is_poison(DType dtype, std::uint64_t bits) {
  const std::uint64_t poison = 0x0101010101010101ull * kPoisonByte;
  return bits == poison >> (64 - 8 * size_of(dtype));
}

/// Whether every sample, the right ones too, holds `predict(sample)`.
template <class Predict>
bool explains(const Case& c, Predict predict) {
  const auto holds = [&](const Sample& sample) { return counts_as(c.data.pattern, sample.got, predict(sample)); };
  return std::ranges::all_of(c.evidence.wrong, holds) && std::ranges::all_of(c.evidence.right, holds);
}

/// Strikes from `ranks` those that cannot explain the sample: it would differ if the rank's contribution had entered
/// `change` times more. O(nranks): the result depends on the palette entry alone.
void strike(const Pattern& pattern, const Sample& sample, int change, std::vector<int>& ranks) {
  const std::uint32_t word = group_word(pattern.seed, sample.index());
  const std::uint32_t a = pick_of(pattern.seed, sample.index()), b = group_b(word);
  PaletteCounts counts = rotated(contributions(b, static_cast<std::uint32_t>(pattern.window)), a);
  bool would_be[kPaletteSize] = {};
  for (int k = 0; k < kPaletteSize; ++k) {
    if (counts[k] == 0) continue;
    counts[k] += static_cast<std::uint32_t>(change);
    would_be[k] = counts_as(pattern, sample.got, reduce_palette(pattern, counts));
    counts[k] -= static_cast<std::uint32_t>(change);
  }
  const bool right = counts_as(pattern, sample.got, sample.want);
  std::erase_if(ranks, [&](int rank) {
    const std::uint32_t p =
        group_place(word, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(pattern.nranks));
    return p < static_cast<std::uint32_t>(pattern.window) ? !would_be[(a + rotation_of(b, p)) % kPaletteSize] : !right;
  });
}

void suspect_contributions(Case& c, int change) {
  const Pattern& pattern = c.data.pattern;
  std::vector<int> ranks(static_cast<std::size_t>(pattern.nranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  for (const auto* samples : {&c.evidence.wrong, &c.evidence.right}) {
    for (const Sample& sample : *samples) {
      if (ranks.empty()) return;
      strike(pattern, sample, change, ranks);
    }
  }
  for (const int rank : ranks) {
    const auto text = change < 0 ? fmt::format("missing contribution of rank {}", rank)
                                 : fmt::format("contribution of rank {} entered twice", rank);
    const Cause cause = change < 0 ? Cause::missing_contribution : Cause::doubled_contribution;
    c.suspects.push_back({{cause, rank, 0, text}, c.bits(), 2.0 * pattern.nranks});
  }
}

/// A block that never arrived still holds the fill byte.
void suspect_lost_block(Case& c) {
  const int source = c.evidence.wrong.front().block->source;
  for (const auto* samples : {&c.evidence.wrong, &c.evidence.right}) {
    for (const Sample& sample : *samples) {
      if (sample.block->source != source || !is_poison(c.data.pattern.dtype, sample.got)) return;
    }
  }
  const auto text =
      fmt::format("data of rank {} never arrived (still holds the fill byte {:#04x})", source, kPoisonByte);
  c.suspects.push_back({{Cause::missing_contribution, source, 0, text}, c.bits(), 1});
}

void suspect_stale(Case& c) {
  for (std::size_t i = 0; i < c.data.earlier_seeds.size(); ++i) {
    if (c.data.earlier_seeds[i] == c.data.pattern.seed) continue;
    const Pattern earlier = with_seed(c.data.pattern, c.data.earlier_seeds[i]);
    if (!explains(c, [&](const Sample& s) { return element_bits(earlier, s.block->source, s.index()); })) continue;
    const auto text = i == 0 ? std::string("stale: the right answer to the case before")
                             : fmt::format("stale: the right answer to the case {} before", i + 1);
    const auto ncandidates = static_cast<double>(c.data.earlier_seeds.size());
    c.suspects.push_back({{Cause::stale, -1, 0, text}, c.bits(), ncandidates});
  }
}

/// Where rank q's data may have come from: the same place of q's send buffer, or q's own block.
void suspect_source(Case& c) {
  const Pattern& pattern = c.data.pattern;
  const auto from_same_place = [&](int rank, const Sample& s) { return element_bits(pattern, rank, s.index()); };
  std::vector<const Block*> own(static_cast<std::size_t>(pattern.nranks), nullptr);
  for (const Block& block : c.data.blocks) {
    if (block.source >= 0) own[static_cast<std::size_t>(block.source)] = &block;
  }
  const auto from_own_block = [&](int rank, const Sample& s) {
    const Block* const block = own[static_cast<std::size_t>(rank)];
    const std::size_t into = s.at - s.block->at;
    return block != nullptr && into < block->count ? element_bits(pattern, rank, block->from + into) : s.want;
  };
  for (int rank = 0; rank < pattern.nranks; ++rank) {
    if (!explains(c, [&](const Sample& s) { return from_same_place(rank, s); }) &&
        !explains(c, [&](const Sample& s) { return from_own_block(rank, s); })) {
      continue;
    }
    const auto text =
        c.evidence.wrong.front().block->source == kReduction
            ? fmt::format("holds rank {}'s own data, not reduced", rank)
            : fmt::format("holds rank {}'s data instead of rank {}'s", rank, c.evidence.wrong.front().block->source);
    c.suspects.push_back({{Cause::wrong_source, rank, 0, text}, c.bits(), 2.0 * pattern.nranks});
  }
}

/// What shift k says of a sample. Data moved over the edge of its block, or in from outside of the buffer, may be
/// anything.
enum class Verdict : std::uint8_t { holds, fails, no_matter };

Verdict judge_shift(const WrongData& data, const Sample& sample, std::int64_t k, bool one_block) {
  const std::int64_t from = static_cast<std::int64_t>(sample.at) - k;
  const Block* const block = from < 0 ? nullptr : block_at(data, static_cast<std::size_t>(from));
  if (block == nullptr) return Verdict::no_matter;
  const std::uint64_t index = block->from + (static_cast<std::size_t>(from) - block->at);
  const std::uint64_t moved = element_bits(data.pattern, block->source, index);
  const bool holds = counts_as(data.pattern, sample.got, moved);
  if (block == sample.block) return holds ? Verdict::holds : Verdict::fails;
  // If one block holds another's data, the source is wrong; that is not a shift.
  if (one_block) return Verdict::no_matter;
  if (holds) return Verdict::holds;
  return static_cast<std::size_t>(std::abs(k)) < sample.block->count ? Verdict::no_matter : Verdict::fails;
}

void suspect_shift_by(Case& c, std::int64_t k) {
  std::size_t nheld = 0;
  for (const Sample& sample : c.evidence.wrong) {
    const Verdict verdict = judge_shift(c.data, sample, k, c.evidence.one_block);
    if (verdict == Verdict::fails) return;
    nheld += verdict == Verdict::holds;
  }
  if (2 * nheld <= c.evidence.wrong.size()) return;
  for (const Sample& sample : c.evidence.right) {
    if (judge_shift(c.data, sample, k, c.evidence.one_block) == Verdict::fails) return;
  }
  const auto text = fmt::format("shifted by {} element{}", k, std::abs(k) == 1 ? "" : "s");
  const double bits = c.bits_per_sample * static_cast<double>(nheld);
  c.suspects.push_back(
      {{Cause::shifted, -1, k, text}, bits, 2.0 * kMaxShift + static_cast<double>(c.data.blocks.size())});
}

void suspect_shift(Case& c) {
  const auto extent = static_cast<std::int64_t>(c.data.blocks.back().at + c.data.blocks.back().count);
  for (std::int64_t k = 1; k <= std::min(kMaxShift, extent - 1); ++k) {
    suspect_shift_by(c, k);
    suspect_shift_by(c, -k);
  }
  if (c.evidence.one_block) return;
  // By whole blocks: from the place of any block to the block of the first or the last wrong element.
  std::set<std::int64_t> shifts;
  for (const Block* const here : {c.evidence.wrong.front().block, c.evidence.wrong.back().block}) {
    for (const Block& block : c.data.blocks) {
      if (block.count > 0) shifts.insert(static_cast<std::int64_t>(here->at) - static_cast<std::int64_t>(block.at));
    }
  }
  for (const std::int64_t k : shifts) {
    if (std::abs(k) > kMaxShift) suspect_shift_by(c, k);
  }
}

void suspect_bit_flips(Case& c) {
  if (c.evidence.nwrong > kMaxFlipped) return;
  for (const Sample& sample : c.evidence.wrong) {
    if (!std::has_single_bit(sample.got ^ sample.want)) return;
  }
  const std::uint64_t n = c.evidence.nwrong;
  const double width_bits = 8.0 * static_cast<double>(size_of(c.data.pattern.dtype));
  // Rare one-bit errors are flips, whatever the width; among narrow elements a few others have one wrong bit by chance.
  const bool rare = 64 * n <= c.evidence.njudged;
  const double bits = (width_bits - std::log2(width_bits)) * static_cast<double>(c.evidence.wrong.size());
  const auto text = fmt::format("single bits differ in {} element{}", n, n == 1 ? "" : "s");
  c.suspects.push_back({{Cause::bit_flips, -1, 0, text}, rare ? kCertaintyBits : bits, 1});
}

/// The odds against a match of one sample by chance. Random words: all their bits; reductions: the choice of a palette
/// entry, because wrong results are likely to be made from the same entries.
double bits_per_sample(const Pattern& pattern) {
  if (!pattern.reduces) return 8.0 * static_cast<double>(size_of(pattern.dtype));
  std::vector<std::uint64_t> entries(std::begin(pattern.palette), std::end(pattern.palette));
  std::ranges::sort(entries);
  entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
  return std::log2(static_cast<double>(entries.size()));
}

WrongDataCause undetermined(const Case& c) {
  const auto poison = [&](const Sample& sample) { return is_poison(c.data.pattern.dtype, sample.got); };
  if (std::ranges::all_of(c.evidence.wrong, poison)) {
    return {Cause::undetermined, -1, 0, fmt::format("never written: still holds the fill byte {:#04x}", kPoisonByte)};
  }
  return {Cause::undetermined, -1, 0, "undetermined"};
}

}  // namespace

WrongDataCause find_cause(const WrongData& wrong) {
  const Evidence evidence = collect_evidence(wrong);
  if (evidence.wrong.empty()) return {Cause::undetermined, -1, 0, "nothing is wrong in this part"};

  Case c{wrong, evidence, bits_per_sample(wrong.pattern), {}};
  const bool reduction = evidence.wrong.front().block->source == kReduction;
  if (reduction) {
    suspect_contributions(c, -1);
    suspect_contributions(c, +1);
  } else {
    suspect_lost_block(c);
  }
  // With two ranks, data without one rank's contribution are the other's data: the former is what happened.
  if (c.suspects.empty()) suspect_source(c);
  suspect_stale(c);
  suspect_shift(c);
  suspect_bit_flips(c);

  if (c.suspects.size() != 1) return undetermined(c);
  const Suspect& only = c.suspects.front();
  if (only.bits < kCertaintyBits + std::log2(only.ncandidates)) return undetermined(c);
  return only.diagnosis;
}

std::string format_element(DType dtype, std::uint64_t bits) {
  if (dtype == DType::uint64) return fmt::format("{}", bits);
  if (dtype == DType::int64) return fmt::format("{}", static_cast<std::int64_t>(bits));
  const double value = decode(dtype, bits);
  if (!is_float(dtype)) return fmt::format("{}", static_cast<std::int64_t>(value));
  const auto digits = static_cast<int>(size_of(dtype)) * 2;
  if (!std::isfinite(value))
    return fmt::format("0x{:0{}x} ({})", bits, digits, std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
  // In float's precision the shortest form of a narrow value has no digits that its type lacks.
  return dtype == DType::float64 ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
}

}  // namespace busbar
