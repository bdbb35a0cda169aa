#pragma once

#include <string>
#include <string_view>

namespace busbar {

/// The rank that a launcher's decoration tells: "[1,3]<stdout>:", "3: ",
/// "[3]:", "[rank3]:". -1: none ("[default3]" is a number within its host).
int decoration_rank(std::string_view decoration);

/// A decoration without what changes from line to line (times): who speaks.
std::string decoration_label(std::string_view decoration);

/// The rank in a file's name: "rank_3.log", "rank-03.txt", "nccl.r3". -1: none.
int file_name_rank(std::string_view name);

}  // namespace busbar
