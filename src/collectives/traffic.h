#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace busbar {

/// Who sends how much to whom in alltoallv. Without a matrix: weighted by the distance (dst - src) mod nranks and
/// blended with a uniform share by `spread` (0 uniform .. 1 fully weighted), as nccl-tests generates it.
struct Traffic {
  double spread = 1.0;
  int dim = 0;                       ///< rows of the matrix; 0: no matrix
  std::vector<std::uint64_t> bytes;  ///< dim x dim, row = source rank [bytes, multiples of 16]

  bool from_matrix() const { return dim > 0; }
};

/// Parses a whitespace-separated square matrix of non-negative byte counts (row i, column j: from rank i to rank j),
/// multiplies each by `scale` and rounds down to 16 bytes. Throws std::invalid_argument saying what is wrong and where.
Traffic parse_traffic_matrix(std::string_view text, double scale);

}  // namespace busbar
