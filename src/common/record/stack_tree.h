#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace busbar {

/// The owner of a stack.
struct StackMember {
  int rank = -1;      ///< -1: not known
  std::string label;  ///< "pid 4242"
  auto operator<=>(const StackMember&) const = default;
};

/// The stacks of a job's members: a tree of calls from the outermost on, in which equal beginnings share a branch.
class StackTree {
 public:
  struct Group {
    std::set<StackMember> members;
    std::vector<std::string> frames;  ///< the outermost first
    std::size_t shared = 0;           ///< so many of them are the largest group's, too; then they differ
  };

  /// `frames`: the outermost first. A known member gets a further stack.
  void add(StackMember member, const std::vector<std::string>& frames);

  /// Groups of equal stacks: the largest first, among equal ones the one with the lowest member.
  std::vector<Group> groups() const;

 private:
  struct Node {
    std::map<std::string, Node> calls;  ///< by the called function
    std::set<StackMember> members;      ///< members whose stack ends here
  };
  static void collect(const Node& node, std::vector<std::string>& path, std::vector<Group>& groups);

  Node root_;
};

}  // namespace busbar
