#pragma once

#include "common/backends/nccl/device_choice.h"
#include "common/base/config.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// A setting of NCCL's as NCCL will find it: from the environment or its configuration files.
using ReadNcclSetting = std::function<std::optional<std::string>(const char* name)>;

/// Where the files begin that busbar lets NCCL log into: open files of the process itself.
inline constexpr std::string_view kOwnLogFiles = "/proc/self/fd/";

/// How NCCL comes to tell what it runs.
struct ObservationSetup {
  std::vector<ProcessSetting> settings;  ///< to apply before NCCL's first call
  bool tuning_log = false;               ///< NCCL's log is free to be read during an observed operation
  bool init_log = false;                 ///< it is free to be read while communicators are made
  std::vector<std::string> remarks;      ///< what will stay unknown, and why

  bool operator==(const ObservationSetup&) const = default;
};

/// What --show-algo and --show-prediction need, and who wants to know the phases of creation. A plugin or a log that
/// the user has chosen is kept, and costs what it would have told. `installed_tuner`: a tuner that NCCL finds without
/// being told, empty if there is none; it chooses, so it is kept too.
ObservationSetup plan_observation(const Config& config, const ReadNcclSetting& setting,
                                  const std::string& installed_tuner);

/// The environment's value, else that of NCCL_CONF_FILE (else ~/.nccl.conf), else that of /etc/nccl.conf.
std::optional<std::string> nccl_setting(const char* name);

/// A variable's value in a configuration file of NCCL: NAME=value lines, # comments; the first one counts.
std::optional<std::string> conf_file_value(std::string_view text, std::string_view name);

/// The file of the tuner that NCCL loads by default: libnccl-tuner.so, or the network plugin if that holds one. Loads
/// them to see, as NCCL will.
std::string find_installed_tuner(const ReadNcclSetting& setting);

}  // namespace busbar
