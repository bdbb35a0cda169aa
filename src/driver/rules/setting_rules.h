#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

// What configs/rules/nccl_settings.yaml, whose header explains each part, knows of variables. -------------------------

/// A remark about a variable that is set.
struct SettingRemark {
  std::vector<std::string> when;  ///< values that it is about, or "not 0", "any"; empty: all values
  bool fails = false;
  std::string what;
  std::string remedy;  ///< empty: the usual one
};

/// Numbers that a value may be.
struct SettingRange {
  int least = 0;
  int most = 0;
  std::string why;
};

/// How a value is made of words.
enum class WordsOfSetting : std::uint8_t { choices, one_of, levels, known_words };

/// One variable. Versions are 10000 major + 100 minor + patch.
struct SettingRule {
  std::string name;
  int first = 0;  ///< version that has it; 0: only the documentation does
  int last = 0;
  bool documented = false;
  bool usual = false;
  bool list = false;
  bool agree = false;
  WordsOfSetting kind = WordsOfSetting::choices;
  std::vector<std::string> words;  ///< of that kind; empty: any value
  std::optional<SettingRange> range;
  std::optional<SettingRemark> unwanted;
  std::optional<SettingRemark> slow;
};

/// The whole file.
struct SettingRules {
  std::vector<SettingRule> nccl;    ///< that NCCL's sources look up, by name
  std::vector<SettingRule> others;  ///< by name
  std::vector<std::string> number_ends;
  std::vector<std::string> families;
};

/// Throws Error(bad_config) naming file and line.
SettingRules read_setting_rules(std::string_view text, const std::string& file_name);

/// Those that are part of the executable.
const SettingRules& setting_rules();

/// That of a variable; null if the file has none.
const SettingRule* find_setting_rule(std::string_view name);

// What they say of a value. -------------------------------------------------------------------------------------------

/// A list with nothing between two commas: a name is missing.
bool has_empty_element(std::string_view name, std::string_view value);

/// Whether NVLink SHARP is among the algorithms that a setting allows by name.
bool asks_for_nvls(std::string_view name, std::string_view value);

/// Why a value of an environment variable cannot be right ("NCCL_IB_RETRY_CNT=15 is outside 0..7"); nothing: fine, or
/// not known. Ranges are those of NCCL's documentation and of the InfiniBand fields that the values go to.
std::optional<std::string> wrong_setting(std::string_view name, std::string_view value);

/// Whether all ranks must have the same value, because it decides what they send to each other.
bool must_agree(std::string_view name);

/// NCCL_IB_HCA without '=' names prefixes: devices in `used` that are taken only because a named one's number continues
/// ("mlx5_1" takes "mlx5_10").
std::vector<std::string> taken_by_prefix(std::string_view hca_setting, const std::vector<std::string>& used);

}  // namespace busbar
