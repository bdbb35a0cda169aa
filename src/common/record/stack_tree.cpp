#include "common/record/stack_tree.h"

#include <algorithm>
#include <utility>

namespace busbar {

void StackTree::add(StackMember member, const std::vector<std::string>& frames) {
  Node* node = &root_;
  for (const std::string& frame : frames) node = &node->calls[frame];
  node->members.insert(std::move(member));
}

void StackTree::collect(const Node& node, std::vector<std::string>& path, std::vector<Group>& groups) {
  if (!node.members.empty()) groups.push_back({node.members, path, 0});
  for (const auto& [frame, called] : node.calls) {
    path.push_back(frame);
    collect(called, path, groups);
    path.pop_back();
  }
}

std::vector<StackTree::Group> StackTree::groups() const {
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

}  // namespace busbar
