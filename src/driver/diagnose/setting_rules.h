#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// A list with nothing between two commas: a name is missing.
bool has_empty_element(std::string_view name, std::string_view value);

/// Whether NVLink SHARP is among the algorithms that a setting allows by name.
bool asks_for_nvls(std::string_view name, std::string_view value);

/// Why a value of an environment variable cannot be right ("NCCL_IB_RETRY_CNT=15 is outside 0..7"); nothing: fine, or
/// not known. Ranges are those of NCCL's documentation and of the InfiniBand fields that the values go to.
std::optional<std::string> wrong_setting(std::string_view name, std::string_view value);

/// Whether all ranks must have the same value, because it decides what they send to each other.
bool must_agree(std::string_view name);

/// NCCL_IB_HCA without '=' names prefixes: devices in `used` that are taken only because a named one's number goes on
/// ("mlx5_1" takes "mlx5_10").
std::vector<std::string> taken_by_prefix(std::string_view hca_setting, const std::vector<std::string>& used);

}  // namespace busbar
