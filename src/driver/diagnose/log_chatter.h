#pragma once

#include <string_view>

namespace busbar {

/// True for messages of NCCL that are well known and say nothing that is used here: they are not counted as unknown, so
/// that the unknown ones show what a new version has changed.
bool is_chatter(std::string_view text);

}  // namespace busbar
