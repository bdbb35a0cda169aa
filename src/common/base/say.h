#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace busbar {

/// Writes every message of ours: untrusted text in it cannot steer a terminal. Does not throw if stderr is a full disk.
void write_stderr(std::string_view text);

/// "busbar: ...\n" on stderr.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  write_stderr("busbar: " + fmt::format(format, std::forward<Args>(args)...) + "\n");
}

/// Writes without stdio, whose locks the main thread may hold; returns whether all of it was written.
bool write_all(int fd, std::string_view text);

}  // namespace busbar
