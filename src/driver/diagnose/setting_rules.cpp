#include "driver/diagnose/setting_rules.h"

#include "common/base/lists.h"
#include "common/base/log_scan.h"
#include "common/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace busbar {
namespace {

struct Range {
  std::string_view name;
  long least, most;
  std::string_view why;
};

constexpr auto kRanges = std::to_array<Range>({
    {"NCCL_IB_RETRY_CNT", 0, 7, "three bits of the queue pair"},
    {"NCCL_IB_TIMEOUT", 0, 31, "five bits of the queue pair"},
    {"NCCL_IB_TC", 0, 255, "one byte of the packet's header"},
    {"NCCL_IB_SL", 0, 15, "four bits of the packet's header"},
    {"NCCL_IB_QPS_PER_CONNECTION", 1, 128, "NCCL's limit"},
    {"NCCL_SOCKET_NTHREADS", 0, 16, "NCCL's limit"},
    {"NCCL_MAX_NCHANNELS", 1, 64, "NCCL's limit"},
    {"NCCL_MAX_CTAS", 1, 64, "NCCL's limit"},
});

// Settings that decide algorithms, chunk sizes and paths between ranks.
constexpr auto kAgree = std::to_array<std::string_view>({"NCCL_ALGO",
                                                         "NCCL_PROTO",
                                                         "NCCL_BUFFSIZE",
                                                         "NCCL_LL_BUFFSIZE",
                                                         "NCCL_LL128_BUFFSIZE",
                                                         "NCCL_NTHREADS",
                                                         "NCCL_LL128_NTHREADS",
                                                         "NCCL_MIN_NCHANNELS",
                                                         "NCCL_MAX_NCHANNELS",
                                                         "NCCL_MIN_NRINGS",
                                                         "NCCL_MAX_NRINGS",
                                                         "NCCL_MIN_CTAS",
                                                         "NCCL_MAX_CTAS",
                                                         "NCCL_IB_DISABLE",
                                                         "NCCL_NET",
                                                         "NCCL_NET_PLUGIN",
                                                         "NCCL_COLLNET_ENABLE",
                                                         "NCCL_NVLS_ENABLE",
                                                         "NCCL_CROSS_NIC",
                                                         "NCCL_NCHANNELS_PER_NET_PEER",
                                                         "NCCL_P2P_NET_CHUNKSIZE",
                                                         "NCCL_P2P_NVL_CHUNKSIZE",
                                                         "NCCL_P2P_PCI_CHUNKSIZE",
                                                         "NCCL_TUNER_PLUGIN",
                                                         "NCCL_CUMEM_ENABLE",
                                                         "NCCL_MNNVL_ENABLE",
                                                         "NCCL_IB_QPS_PER_CONNECTION",
                                                         "NCCL_PXN_DISABLE",
                                                         "NCCL_THREAD_THRESHOLDS"});

}  // namespace

std::optional<std::string> wrong_setting(std::string_view name, std::string_view value) {
  const auto range = std::ranges::find_if(kRanges, [&](const Range& one) { return one.name == name; });
  if (range == kRanges.end()) return std::nullopt;
  long number = 0;
  if (!whole_number(value, number)) return std::nullopt;  // hexadecimal, or a policy
  if (number >= range->least && number <= range->most) return std::nullopt;
  if (number == -1 || number == -2) return std::nullopt;  // NCCL's "not set"
  return fmt::format("{}={} is outside {}..{} ({})", name, number, range->least, range->most, range->why);
}

bool has_empty_element(std::string_view name, std::string_view value) {
  constexpr std::string_view kLists[] = {"NCCL_ALGO", "NCCL_PROTO", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME"};
  if (std::ranges::find(kLists, name) == std::end(kLists) || value.find(',') == kNotFound) return false;
  return value.starts_with(',') || value.ends_with(',') || value.find(",,") != kNotFound;
}

bool asks_for_nvls(std::string_view name, std::string_view value) {
  return name == "NCCL_ALGO" && !value.starts_with('^') && lower_case(value).find("nvls") != std::string::npos;
}

bool must_agree(std::string_view name) { return contains(kAgree, name); }

std::vector<std::string> taken_by_prefix(std::string_view hca_setting, const std::vector<std::string>& used) {
  std::vector<std::string> taken;
  if (hca_setting.empty() || hca_setting.front() == '=' || hca_setting.front() == '^') return taken;
  std::vector<std::string_view> named;
  for (std::string_view one : split_text(hca_setting, ',')) {
    one = one.substr(0, one.find(':'));
    while (one.starts_with(' ')) one.remove_prefix(1);
    if (!one.empty()) named.push_back(one);
  }
  for (const std::string& device : used) {
    if (contains(named, device)) continue;
    const bool longer = std::ranges::any_of(named, [&](std::string_view one) {
      return is_digit(one.back()) && device.size() > one.size() && device.starts_with(one) &&
             is_digit(device[one.size()]);
    });
    if (longer) taken.push_back(device);
  }
  return taken;
}

}  // namespace busbar
