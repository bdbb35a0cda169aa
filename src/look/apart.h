#pragma once

#include "common/base/packed_fields.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace busbar {

struct ApartLimits {
  double each_s = 2;
  double all_s = 20;        ///< items that have not begun by then are given up
  std::size_t at_once = 4;  ///< processes
};

/// What a piece of work gave, or why it gave nothing.
template <class Value>
struct Apart {
  std::optional<Value> value;
  std::string why;
  bool timed_out = false;
};
void visit_fields(auto&& visit, Apart<std::string>& a) { BUSBAR_ALL_FIELDS(visit, a, value, why, timed_out); }

using WorkApart = std::function<std::string(std::size_t)>;

/// Does the work of each item in a child process of its own. One that does not end in time is killed and not waited
/// for: it may wait in the kernel for ever. `work` may throw; only its text comes back.
std::vector<Apart<std::string>> run_apart(std::size_t items, const ApartLimits& limits, const WorkApart& work);

/// The same for work that makes records.
template <class Work>
auto records_apart(std::size_t items, const ApartLimits& limits, const Work& work) {
  using Value = decltype(work(std::size_t{}));
  std::vector<Apart<Value>> results;
  for (auto& [text, why, timed_out] : run_apart(items, limits, [&](std::size_t i) { return pack_fields(work(i)); })) {
    results.push_back({text ? std::optional(unpack_fields<Value>(*text)) : std::nullopt, std::move(why), timed_out});
  }
  return results;
}

}  // namespace busbar
