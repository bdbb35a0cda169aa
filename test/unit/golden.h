#pragma once

// Compares a text with test/unit/golden/NAME. To bless a change that was read and meant: run the tests with
// BUSBAR_BLESS=1 in the environment and look at `git diff`.

#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace busbar {

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void check_golden(const std::string& name, const std::string& text) {
  const auto path = std::filesystem::path(__FILE__).parent_path() / "golden" / name;
  if (std::getenv("BUSBAR_BLESS") != nullptr) std::ofstream(path, std::ios::binary) << text;
  INFO("golden file " << path.string());
  CHECK(text == read_text(path));
}

}  // namespace busbar
