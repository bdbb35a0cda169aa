#pragma once

#include "kernels/diagnose.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace busbar {

/// One element of the window: where it is, what it holds and what it should hold.
struct Sample {
  std::size_t at = 0;            ///< index in the receive part
  const Block* block = nullptr;  ///< the block that says what it should hold
  std::uint64_t got = 0;
  std::uint64_t want = 0;

  std::uint64_t index() const { return block->from + (at - block->at); }  ///< in the source's send data
};

/// What a cause must explain. `right` are elements that are as they should be where the cause would have been at work:
/// in the blocks with wrong elements, and between the first and the last of these if they are many.
struct Evidence {
  std::uint64_t nwrong = 0;   ///< wrong elements in the window
  std::uint64_t njudged = 0;  ///< elements of the window that a block describes
  std::vector<Sample> wrong;
  std::vector<Sample> right;
  bool one_block = true;  ///< all of `wrong` lie in one block
};

Evidence collect_evidence(const WrongData& data);

/// The block that describes element `at` of the receive part, or null.
const Block* block_at(const WrongData& data, std::size_t at);

/// What element `at` of the window holds.
std::uint64_t element_at(const WrongData& data, std::size_t at);

}  // namespace busbar
