#include "common/backends/backend.h"

namespace busbar {

InPlaceOffsets Backend::in_place_offsets(const Operation& op, int rank) const {
  return op.collective->in_place(op.problem, rank);
}

std::vector<Block> Backend::expected(const Operation& op, int rank) const {
  return op.collective->expected(op.problem, rank);
}

}  // namespace busbar
