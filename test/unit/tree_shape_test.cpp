// Would catch: a member that no message of a tree reaches, or that two reach; an edge that the processes have not
// opened; a subtree whose texts are not next to each other, so that gather gives them to the wrong ranks.

#include "common/processes/sockets/socket_group.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <set>
#include <vector>

using namespace busbar;

namespace {

/// Distances around a ring of `size` members, one step at a time.
std::set<int> reached_by_doubling(int member, int size) {
  std::set<int> reached;
  for (const int direction : {1, -1}) {
    for (int distance = 1; distance < size; distance *= 2) {
      int at = member;
      for (int i = 0; i < distance; ++i)
        at = at + direction == size ? 0 : at + direction < 0 ? size - 1 : at + direction;
      reached.insert(at);
    }
  }
  return reached;
}

/// The members in the order in which gather puts their texts together.
void collect(int member, int size, int root, std::vector<int>& order) {
  order.push_back(member);
  for (const int child : tree_shape(member, size, root).children) collect(child, size, root, order);
}

}  // namespace

TEST_CASE("A tree over a group reaches each member once, from every root", "[sockets][tree]") {
  for (int size = 1; size <= 130; ++size) {
    for (int root = 0; root < size; ++root) {
      std::vector<int> order;
      collect(root, size, root, order);
      std::vector<int> expected(static_cast<std::size_t>(size));
      for (int i = 0; i < size; ++i) expected[static_cast<std::size_t>(i)] = (root + i) % size;
      REQUIRE(order == expected);
      REQUIRE(tree_shape(root, size, root).parent == -1);
      for (int member = 0; member < size; ++member) {
        for (const int child : tree_shape(member, size, root).children) {
          REQUIRE(tree_shape(child, size, root).parent == member);
        }
      }
    }
  }
}

TEST_CASE("All edges of all trees are connections to neighbors, and these are mutual", "[sockets][tree]") {
  for (int size = 1; size <= 130; ++size) {
    std::vector<std::set<int>> neighbors;
    for (int member = 0; member < size; ++member) {
      const std::vector<int> found = circulant_neighbors(member, size);
      REQUIRE(std::ranges::is_sorted(found));
      neighbors.emplace_back(found.begin(), found.end());
      REQUIRE(neighbors.back().size() == found.size());
      REQUIRE(neighbors.back() == reached_by_doubling(member, size));
    }
    for (int member = 0; member < size; ++member) {
      for (const int neighbor : neighbors[static_cast<std::size_t>(member)]) {
        REQUIRE(neighbors[static_cast<std::size_t>(neighbor)].contains(member));
      }
      for (int root = 0; root < size; ++root) {
        const int parent = tree_shape(member, size, root).parent;
        REQUIRE((parent < 0 || neighbors[static_cast<std::size_t>(member)].contains(parent)));
      }
    }
  }
}

TEST_CASE("A tree is as deep as the logarithm of its members", "[sockets][tree]") {
  for (const auto& [size, depth] : {std::pair(1, 0), {2, 1}, {3, 1}, {4, 2}, {8, 3}, {128, 7}, {130, 7}}) {
    int deepest = 0;
    for (int member = 0; member < size; ++member) {
      int steps = 0;
      for (int at = member; at != 0; at = tree_shape(at, size, 0).parent) ++steps;
      deepest = std::max(deepest, steps);
    }
    CHECK(deepest == depth);
  }
}
