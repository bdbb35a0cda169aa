#pragma once

#include <algorithm>
#include <span>
#include <string_view>

namespace busbar {

/// A file that is part of the executable (cmake/BusbarEmbed.cmake).
struct EmbeddedFile {
  std::string_view name;  ///< "h100.yaml"
  std::string_view text;
};

/// The text of the embedded file with that name, which must exist.
inline std::string_view embedded_text(std::span<const EmbeddedFile> files, std::string_view name) {
  return std::ranges::find(files, name, &EmbeddedFile::name)->text;
}

/// configs/platforms/*.yaml.
std::span<const EmbeddedFile> embedded_platforms();

/// configs/*.yaml: the plans that `accept` finds by name.
std::span<const EmbeddedFile> embedded_plans();

/// configs/rules/*.yaml, and configs/rules/lines/*.yaml.
std::span<const EmbeddedFile> embedded_rules();
std::span<const EmbeddedFile> embedded_line_rules();

/// configs/help: the --help of subcommands, and texts that are too long for it.
std::span<const EmbeddedFile> embedded_help();

/// The parts of the HTML report: the charting library, style, script.
std::span<const EmbeddedFile> embedded_report();

/// busbar's license, then those of others' work in the programs.
std::span<const EmbeddedFile> embedded_licenses();

}  // namespace busbar
