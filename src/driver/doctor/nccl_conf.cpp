#include "driver/doctor/nccl_conf.h"

#include <algorithm>

namespace busbar {

std::vector<ConfLine> parse_nccl_conf(std::string_view text) {
  std::vector<ConfLine> lines;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string_view::npos) continue;
    lines.push_back({number, std::string(line.substr(0, equals)), std::string(line.substr(equals + 1))});
  }
  return lines;
}

std::vector<ConfFile> nccl_conf_files(const Probe& probe) {
  std::vector<std::string> paths;
  const auto named = probe.environment.find("NCCL_CONF_FILE");
  const auto home = probe.environment.find("HOME");
  if (named != probe.environment.end()) {
    paths.push_back(named->second);
  } else if (home != probe.environment.end()) {
    paths.push_back(home->second + "/.nccl.conf");
  }
  paths.emplace_back("/etc/nccl.conf");
  std::vector<ConfFile> files;
  for (const std::string& path : paths) {
    if (const auto text = probe.read(path)) files.push_back({path, parse_nccl_conf(*text)});
  }
  return files;
}

std::map<std::string, NcclSetting> nccl_settings(const Probe& probe, const std::vector<ConfFile>& files) {
  std::map<std::string, NcclSetting> settings;
  for (const auto& [name, value] : probe.environment) {
    if (name.starts_with("NCCL_")) settings[name] = {value, ""};
  }
  for (const ConfFile& file : files) {
    for (const ConfLine& line : file.lines) {
      if (line.name.starts_with("NCCL_")) settings.try_emplace(line.name, NcclSetting{line.value, file.path});
    }
  }
  return settings;
}

}  // namespace busbar
