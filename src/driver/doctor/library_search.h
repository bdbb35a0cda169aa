#pragma once

#include "common/machine/probe.h"

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Folders in which the dynamic loader of this process looks, in its order: LD_LIBRARY_PATH, what /etc/ld.so.conf and
/// the files that it includes name, the system's own. Not the loader's cache, which is no text: a folder that was named
/// after the last ldconfig counts too. Pure in the probe.
std::vector<std::string> library_folders(const Probe& probe);

/// Paths of the files that are mapped into a process and whose names begin with `library`, from the text of its
/// /proc/PID/maps. Pure.
std::set<std::string> mapped_files(std::string_view maps, std::string_view library);

/// The first file of that name there, or the name itself where it is a path to one; empty where there is none.
std::string find_library(const Probe& probe, const std::vector<std::string>& folders, const std::string& name);

}  // namespace busbar
