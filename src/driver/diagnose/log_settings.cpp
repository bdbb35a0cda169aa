#include "driver/diagnose/log_settings.h"

#include "driver/diagnose/log_scan.h"

#include <string_view>

namespace busbar {
namespace {

/// "NCCL_IB_TC set by environment to 128." and "NCCL_IB_HCA set to mlx5_0".
bool parse_env(LogScan scan, LogFact& fact) {
  EnvSetting setting;
  setting.name = scan.name();
  const bool number = scan.take(" set by environment to");
  if (!number && !scan.take(" set to")) return false;
  if (!scan.rest.empty() && !is_blank(scan.rest.front())) return false;
  setting.value = without_blanks(scan.rest);
  // Only what is echoed as a number has the full stop; names of hosts and files may end in one.
  if (number && setting.value.ends_with('.')) setting.value.remove_suffix(1);
  fact = setting;
  return true;
}

/// "2.28.9+cuda13.0"; PyTorch's errors have no CUDA in it.
bool parse_version(LogScan scan, LogFact& fact) {
  std::string_view version = scan.word();
  while (!version.empty() && (version.back() == ',' || version.back() == ')')) version.remove_suffix(1);
  if (version.empty() || !is_digit(version.front()) || version.find('.') == std::string_view::npos) return false;
  VersionLine line{.nccl = version, .cuda = {}};
  if (const auto plus = version.find("+cuda"); plus != std::string_view::npos) {
    line.nccl = version.substr(0, plus);
    line.cuda = version.substr(plus + 5);
  }
  fact = line;
  return true;
}

struct CapabilityWords {
  std::string_view begin;
  std::string_view name;
  bool available;
};

constexpr CapabilityWords kCapabilities[] = {
    {"NVLS multicast support is available", "NVLS", true},
    {"NVLS multicast support is not available", "NVLS", false},
    {"MNNVL 1", "MNNVL", true},
    {"MNNVL 0", "MNNVL", false},
    {"DMA-BUF is available", "DMABUF", true},
    {"NET/OFI Support for DMA-BUF registrations: true", "DMABUF", true},
    {"NET/OFI Support for DMA-BUF registrations: false", "DMABUF", false},
    {"RAS client listening socket", "RAS", true},
    {"RAS failed to establish", "RAS", false},
    {"CC On", "CC", true},
    {"CC Off", "CC", false},
};

}  // namespace

bool parse_setting(std::string_view text, LogFact& fact) {
  LogScan scan{text};
  if (scan.take("NCCL version ")) return parse_version(scan, fact);
  if (text.starts_with("NCCL_")) return parse_env(scan, fact);
  for (const CapabilityWords& words : kCapabilities) {
    if (!text.starts_with(words.begin)) continue;
    fact = Capability{.name = words.name, .available = words.available, .text = text};
    return true;
  }
  return false;
}

}  // namespace busbar
