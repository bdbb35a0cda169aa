#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace busbar {

/// Whose stack it is.
struct StackMember {
  int rank = -1;      ///< -1: not known
  std::string label;  ///< "pid 4242"
  auto operator<=>(const StackMember&) const = default;
};

/// Where the members of a job stand: a tree of calls, from the outermost on, in which equal beginnings are one branch.
class StackTree {
 public:
  struct Group {
    std::set<StackMember> members;
    std::vector<std::string> frames;  ///< the outermost first
    std::size_t shared = 0;           ///< so many of them the largest group has too: behind them it departs
  };

  /// `frames`: the outermost first. A member that is there already has another stack beside.
  void add(StackMember member, const std::vector<std::string>& frames);

  /// Those with equal stacks, the largest group first, of equal ones that of the lowest member.
  std::vector<Group> groups() const;

 private:
  struct Node {
    std::map<std::string, Node> calls;  ///< by what this one calls
    std::set<StackMember> members;      ///< whose stack ends here
  };
  static void collect(const Node& node, std::vector<std::string>& path, std::vector<Group>& groups);

  Node root_;
};

}  // namespace busbar
