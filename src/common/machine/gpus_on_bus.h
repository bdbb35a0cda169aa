#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace busbar {

/// PCI addresses ("0000:18:00.0") of the NVIDIA GPUs on this host's bus, ascending. Needs no driver, so it tells a host
/// without GPUs from one whose driver is dead. `root` is where /sys is looked for; empty where it is not visible.
std::vector<std::string> gpus_on_bus(const std::filesystem::path& root = "/");

}  // namespace busbar
