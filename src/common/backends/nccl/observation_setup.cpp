#include "common/backends/nccl/observation_setup.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <pwd.h>
#include <strings.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace busbar {
namespace {

/// NCCL's word for a plugin inside the executable: ours.
constexpr const char* kOwnPlugin = "STATIC_PLUGIN";

/// The user's plugin, if the variable names one other than ours; "none" too is the user's word.
std::optional<std::string> users_plugin(const ReadNcclSetting& setting, const char* variable) {
  const std::optional<std::string> value = setting(variable);
  if (!value || value->empty() || strcasecmp(value->c_str(), kOwnPlugin) == 0) return std::nullopt;
  return value;
}

/// Why no prediction can be had, or empty.
std::string no_prediction(const Config& config, const ReadNcclSetting& setting, const std::string& installed_tuner) {
  if (config.cta_policy) return "a tuner, which would tell it, changes how NCCL chooses with -x";
  if (const auto tuner = users_plugin(setting, "NCCL_TUNER_PLUGIN")) {
    return fmt::format("NCCL_TUNER_PLUGIN={} is kept, and NCCL takes one tuner only", *tuner);
  }
  if (!installed_tuner.empty()) {
    return fmt::format("NCCL finds the tuner {} here, which is kept: it is part of what is measured", installed_tuner);
  }
  return {};
}

/// "NCCL_DEBUG=INFO": the user's setting that NCCL's log follows, if there is one.
std::optional<std::string> claim_on_log(const ReadNcclSetting& setting) {
  for (const char* variable : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) {
    if (const auto value = setting(variable)) return fmt::format("{}={}", variable, *value);
  }
  return std::nullopt;
}

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string user_conf_file() {
  const char* named = std::getenv("NCCL_CONF_FILE");
  if (named != nullptr && *named != '\0') return named;
  const passwd* user = getpwuid(getuid());
  return user != nullptr && user->pw_dir != nullptr ? fmt::format("{}/.nccl.conf", user->pw_dir) : std::string();
}

bool holds_tuner(const std::string& file) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return false;
  bool found = false;
  for (int version = 2; version <= 9; ++version) {
    found = found || dlsym(handle, fmt::format("ncclTunerPlugin_v{}", version).c_str()) != nullptr;
  }
  dlclose(handle);
  return found;
}

}  // namespace

ObservationSetup plan_observation(const Config& config, const ReadNcclSetting& setting,
                                  const std::string& installed_tuner) {
  ObservationSetup setup;
  if (config.init_phases) {
    const auto claim = claim_on_log(setting);
    setup.init_log = !claim;
    if (claim) {
      setup.remarks.push_back(
          fmt::format("the phases of creation are unknown: NCCL tells them in its log only, which {} claims", *claim));
    }
  }
  if (!config.show_algo) return setup;
  if (const auto profiler = users_plugin(setting, "NCCL_PROFILER_PLUGIN")) {
    setup.remarks.push_back(fmt::format(
        "--show-algo: NCCL_PROFILER_PLUGIN={} is kept, so that NCCL does not tell busbar what it runs", *profiler));
    return setup;
  }
  setup.settings.push_back({"NCCL_PROFILER_PLUGIN", kOwnPlugin, true});
  if (config.show_prediction) {
    const std::string why = no_prediction(config, setting, installed_tuner);
    if (why.empty()) {
      setup.settings.push_back({"NCCL_TUNER_PLUGIN", kOwnPlugin, true});
    } else {
      setup.remarks.push_back(fmt::format("--show-prediction: none: {}", why));
    }
  }
  if (config.local_register == 2) {
    setup.tuning_log = true;
    // Set for an earlier communicator of this process.
    if (setting("NCCL_DEBUG_FILE").value_or("").starts_with(kOwnLogFiles)) return setup;
    if (const auto claim = claim_on_log(setting)) {
      setup.tuning_log = false;
      setup.remarks.push_back(fmt::format(
          "--show-algo: symmetric kernels (-R 2) are unknown: NCCL tells them in its log only, which {} claims",
          *claim));
    }
  }
  return setup;
}

std::optional<std::string> conf_file_value(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::size_t equals = line.find('=');
    if (!line.starts_with('#') && equals != std::string_view::npos && line.substr(0, equals) == name) {
      return std::string(line.substr(equals + 1));
    }
  }
  return std::nullopt;
}

std::optional<std::string> nccl_setting(const char* name) {
  if (const char* value = std::getenv(name)) return value;
  for (const std::string& file : {user_conf_file(), std::string("/etc/nccl.conf")}) {
    if (auto value = conf_file_value(read_text(file), name)) return value;
  }
  return std::nullopt;
}

std::string find_installed_tuner(const ReadNcclSetting& setting) {
  std::string network = setting("NCCL_NET_PLUGIN").value_or("");
  if (network.empty()) network = "libnccl-net.so";
  // NCCL tries the name itself first, then as part of a file name.
  for (const std::string& file :
       {std::string("libnccl-tuner.so"), network, fmt::format("libnccl-net-{}.so", network)}) {
    if (strcasecmp(file.c_str(), "none") != 0 && holds_tuner(file)) return file;
  }
  return {};
}

}  // namespace busbar
