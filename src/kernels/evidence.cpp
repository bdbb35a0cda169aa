#include "kernels/evidence.h"

#include <algorithm>
#include <cstring>

namespace busbar {
namespace {

/// The window is searched in so many slices, for the first and the last wrong element of each.
constexpr std::size_t kSlices = 200;

/// From so many wrong elements on, right ones outside of their span do not speak against a cause: it was at work on a
/// part of the message only, as where one chunk of a pipelined transfer is lost. Chance does not explain as many.
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

Sample sample_at(const WrongData& data, const Block& block, std::size_t at) {
  Sample sample{at, &block, element_at(data, at), 0};
  sample.want = element_bits(data.pattern, block.source, sample.index());
  return sample;
}

void add_if_right(const WrongData& data, Span scope, std::size_t at, Evidence& evidence) {
  if (at < scope.begin || at >= scope.end) return;
  const Block* const block = block_at(data, at);
  const auto same_block = [&](const Sample& wrong) { return wrong.block == block; };
  if (block == nullptr || std::none_of(evidence.wrong.begin(), evidence.wrong.end(), same_block)) return;
  const Sample sample = sample_at(data, *block, at);
  if (counts_as(data.pattern, sample.got, sample.want)) evidence.right.push_back(sample);
}

}  // namespace

const Block* block_at(const WrongData& data, std::size_t at) {
  const auto after = std::upper_bound(data.blocks.begin(), data.blocks.end(), at,
                                      [](std::size_t i, const Block& block) { return i < block.at; });
  // Blocks without elements may share their place with the one that has some.
  for (auto it = after; it != data.blocks.begin();) {
    --it;
    if (it->count > 0) return at < it->at + it->count ? &*it : nullptr;
  }
  return nullptr;
}

std::uint64_t element_at(const WrongData& data, std::size_t at) {
  const std::size_t width = size_of(data.pattern.dtype);
  std::uint64_t bits = 0;  // little-endian, as everything that CUDA runs on
  std::memcpy(&bits, static_cast<const unsigned char*>(data.recv) + (at - data.first) * width, width);
  return bits;
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
  evidence.one_block = std::all_of(evidence.wrong.begin(), evidence.wrong.end(),
                                   [&](const Sample& sample) { return sample.block == first_block; });

  const Span scope = all.wrong >= kManyWrong ? span : window;
  const std::size_t stride = std::max<std::size_t>(1, (scope.end - scope.begin) / kSlices);
  for (std::size_t at = scope.begin; at < scope.end; at += stride) add_if_right(data, scope, at, evidence);
  for (std::size_t i = 0; i < evidence.wrong.size(); i += 4) {
    add_if_right(data, scope, evidence.wrong[i].at + 1, evidence);
    add_if_right(data, scope, evidence.wrong[i].at - 1, evidence);
  }
  return evidence;
}

}  // namespace busbar
