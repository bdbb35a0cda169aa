#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace busbar {

/// Shared memory and the file that it is; no path: private memory.
struct FlightPlace {
  void* memory = nullptr;
  std::filesystem::path path;
};

/// A new file `name`, zeroed, reserved and mapped, in the first of `folders` that has room, for this user only. Throws
/// std::bad_alloc where there is not even private memory.
FlightPlace make_flight_place(std::span<const std::filesystem::path> folders, const std::string& name,
                              std::size_t nbytes);

/// Unmaps it, and removes the file where `remove` says so and this is the process that made it.
void release_flight_place(void* memory, std::size_t nbytes, const std::filesystem::path& path, bool remove) noexcept;

/// $TMPDIR, else /tmp.
std::filesystem::path temporary_folder();

/// Only letters, digits, '_' and '-', and '.' between them, cut after `length`.
std::string fit_for_file_name(std::string_view text, std::size_t length);

}  // namespace busbar
