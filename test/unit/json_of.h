#pragma once

#include "common/record/json_values.h"

#include <nlohmann/json.hpp>

#include <string>

namespace busbar {

/// As the library's own reader has it, whose parser is compiled once, in json_values_test.cpp: it takes a second.
Json json_of(const std::string& text);

}  // namespace busbar
