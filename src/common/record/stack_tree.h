#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
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
  void add(StackMember member, const std::vector<std::string>& frames) {
    Node* node = &root_;
    for (const std::string& frame : frames) node = &node->calls[frame];
    node->members.insert(std::move(member));
  }

  /// Groups of equal stacks: the largest first, among equal ones the one with the lowest member.
  std::vector<Group> groups() const {
    std::vector<Group> groups;
    std::vector<std::string> path;
    collect(root_, path, groups);
    std::ranges::sort(groups, [](const Group& a, const Group& b) {
      if (a.members.size() != b.members.size()) return a.members.size() > b.members.size();
      return a.members < b.members;
    });
    for (Group& group : groups) {
      const auto parting = std::ranges::mismatch(group.frames, groups.front().frames);
      group.shared = static_cast<std::size_t>(parting.in1 - group.frames.begin());
    }
    return groups;
  }

 private:
  struct Node {
    std::map<std::string, Node> calls;  ///< by the called function
    std::set<StackMember> members;      ///< members whose stack ends here
  };

  static void collect(const Node& node, std::vector<std::string>& path, std::vector<Group>& groups) {
    if (!node.members.empty()) groups.push_back({node.members, path, 0});
    for (const auto& [frame, called] : node.calls) {
      path.push_back(frame);
      collect(called, path, groups);
      path.pop_back();
    }
  }

  Node root_;
};

}  // namespace busbar
