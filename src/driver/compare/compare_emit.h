#pragma once

#include "driver/compare/compare_options.h"
#include "driver/compare/comparison.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbar {

/// A file that a comparison became, and how a launch uses it.
struct Emitted {
  enum class Kind : std::uint8_t { ompi_rules, tuner, environment };
  Kind kind = Kind::ompi_rules;
  std::string path;                                              ///< absolute
  std::vector<std::pair<std::string, std::string>> environment;  ///< of a launch that uses it
  struct Target {
    const Collective* collective = nullptr;
    std::vector<std::uint64_t> sizes;  ///< where it changes something
  };
  std::vector<Target> targets;
  int nranks = 0;
};

/// What cannot become the files that are asked for, or be verified, is refused before anything is measured: throws
/// Error(bad_config).
void check_emission(const CompareOptions& options);

/// Refuses a file to be written whose folder is not there or not writable: throws Error(bad_config) naming `option`.
void check_folder(const std::string& path, std::string_view option);

/// Writes the files, never over existing ones, and tells on stdout what was written and how it is used. For process 0.
/// Throws Error(bad_config).
std::vector<Emitted> emit_files(const CompareOptions& options, std::span<const Comparison> comparisons);

/// The variables with which a launch uses the file.
std::vector<std::pair<std::string, std::string>> environment_of_file(Emitted::Kind kind, const std::string& path);

}  // namespace busbar
