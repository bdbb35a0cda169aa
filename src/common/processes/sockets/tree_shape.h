#pragma once

#include <vector>

namespace busbar {

/// A member's place in the binomial tree of a group. All edges join members at distances of 1, 2, 4, ... (modulo the
/// size), whatever the root.
struct TreeShape {
  int parent = -1;            ///< -1: the root
  std::vector<int> children;  ///< nearest first; each brings as many members as its distance, or what is left
};

TreeShape tree_shape(int member, int size, int root);

/// The members at distances of 1, 2, 4, ... on both sides, ascending: those of every tree and of the barrier.
std::vector<int> circulant_neighbors(int member, int size);

}  // namespace busbar
