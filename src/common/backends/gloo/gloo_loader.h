#pragma once

#include "common/backends/gloo/gloo_module.h"

#include <string>

namespace busbar {

/// Opens libbusbar_gloo.so beside this program, or where `make install` puts it. It stays open until the process ends.
/// Throws Error(not_possible) with the remedy.
const GlooModule& load_gloo();

/// The same of a file.
const GlooModule& load_gloo(const std::string& path);

}  // namespace busbar
