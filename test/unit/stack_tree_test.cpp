// The bugs these would catch: members with equal stacks in two groups, a group that counts from the innermost call, a
// stack that is the beginning of another taken for it, and an order that depends on who was added first.

#include "common/record/stack_tree.h"

#include <catch2/catch.hpp>

#include <set>
#include <string>
#include <vector>

using namespace busbar;

TEST_CASE("Members with equal stacks are a group, and the others depart where their calls do", "[stack_tree]") {
  const std::vector<std::string> wait{"main", "step", "all_reduce"};
  StackTree tree;
  tree.add({7, ""}, {"main", "save", "write"});
  tree.add({-1, "pid 42"}, {"main", "step"});
  tree.add({2, ""}, wait);
  tree.add({0, ""}, wait);
  tree.add({3, ""}, {"start", "step", "all_reduce"});
  const std::vector<StackTree::Group> groups = tree.groups();
  REQUIRE(groups.size() == 4);
  CHECK(groups[0].members == std::set<StackMember>{{0, ""}, {2, ""}});
  CHECK(groups[0].frames == wait);
  CHECK(groups[0].shared == 3);
  CHECK(groups[1].members == std::set<StackMember>{{-1, "pid 42"}});
  CHECK(groups[1].frames == std::vector<std::string>{"main", "step"});
  CHECK(groups[1].shared == 2);
  CHECK(groups[2].members == std::set<StackMember>{{3, ""}});
  CHECK(groups[2].shared == 0);
  CHECK(groups[3].members == std::set<StackMember>{{7, ""}});
  CHECK(groups[3].shared == 1);
}

TEST_CASE("A tree without stacks has no groups", "[stack_tree]") { CHECK(StackTree().groups().empty()); }
