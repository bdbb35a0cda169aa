#pragma once

#include <span>
#include <string_view>

namespace busbar {

/// A file that is part of the executable (cmake/BusbarEmbed.cmake).
struct EmbeddedFile {
  std::string_view name;  ///< "h100.yaml"
  std::string_view text;
};

/// configs/platforms/*.yaml.
std::span<const EmbeddedFile> embedded_platforms();

/// configs/*.yaml: the plans that `accept` finds by name alone.
std::span<const EmbeddedFile> embedded_plans();

/// configs/rules/NAME.yaml, one each.
std::span<const EmbeddedFile> embedded_nccl_settings();
std::span<const EmbeddedFile> embedded_xid();

/// What the HTML report is made of: the charting library, style, script.
std::span<const EmbeddedFile> embedded_report();

/// busbar's licence, then other people's work in the programs.
std::span<const EmbeddedFile> embedded_licenses();

}  // namespace busbar
