#pragma once

// The header of Catch2's version 2 for version 3: the tests keep to what both have, apart from these names.

#include <catch2/catch_all.hpp>

#include <string>

using Catch::Approx;

namespace Catch {

using namespace Matchers;

inline auto Contains(const std::string& part) { return Matchers::ContainsSubstring(part); }

}  // namespace Catch
