#include "common/processes/sockets/tree_shape.h"

#include <set>

namespace busbar {

TreeShape tree_shape(int member, int size, int root) {
  // As if the root were 0: the parent of v is v without its lowest bit.
  const int v = (member - root + size) % size;
  const auto member_of = [&](int relative) { return (relative + root) % size; };
  TreeShape shape;
  const int lowest = v & -v;
  if (v != 0) shape.parent = member_of(v - lowest);
  for (int step = 1; step < size - v && (v == 0 || step < lowest); step *= 2)
    shape.children.push_back(member_of(v + step));
  return shape;
}

std::vector<int> circulant_neighbors(int member, int size) {
  std::set<int> neighbors;
  for (int step = 1; step < size; step *= 2) {
    neighbors.insert((member + step) % size);
    neighbors.insert((member - step + size) % size);
  }
  return {neighbors.begin(), neighbors.end()};
}

}  // namespace busbar
