#include "driver/doctor/env_names.h"

#include "common/base/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

namespace busbar {
namespace {

constexpr auto kNames = std::to_array<NcclName>({
#include "driver/doctor/nccl_env_names.inc"
});

/// Names of which the table of NCCL's sources does not tell enough.
struct Told {
  std::string_view name;  // without "NCCL_"
  Outcome outcome;
  std::string_view reason;
  std::string_view remedy;
};

constexpr std::string_view kOfPyTorch = "it is PyTorch's, not NCCL's, and has had another name since PyTorch 2.2";
constexpr std::string_view kOldRange = "deprecated since NCCL 2.17, and overruled by the newer name where both are set";

constexpr auto kTold = std::to_array<Told>({
    {"TIMEOUT", Outcome::warn, "no NCCL ever had it: NCCL's collectives have no timeout",
     "unset it; PyTorch's is the argument timeout of init_process_group"},
    {"ASYNC_ERROR_HANDLING", Outcome::warn, kOfPyTorch, "TORCH_NCCL_ASYNC_ERROR_HANDLING"},
    {"BLOCKING_WAIT", Outcome::warn, kOfPyTorch, "TORCH_NCCL_BLOCKING_WAIT"},
    {"DESYNC_DEBUG", Outcome::warn, kOfPyTorch, "TORCH_NCCL_DESYNC_DEBUG"},
    {"ENABLE_TIMING", Outcome::warn, kOfPyTorch, "TORCH_NCCL_ENABLE_TIMING"},
    {"MAX_NCHANNELS", Outcome::warn, kOldRange, "NCCL_MAX_CTAS"},
    {"MIN_NCHANNELS", Outcome::warn, kOldRange, "NCCL_MIN_CTAS"},
    {"MAX_NRINGS", Outcome::warn, kOldRange, "NCCL_MAX_CTAS"},
    {"MIN_NRINGS", Outcome::warn, kOldRange, "NCCL_MIN_CTAS"},
    {"CHECKS_DISABLE", Outcome::warn, "deprecated since NCCL 2.2.12, and no longer read", "NCCL_CHECK_MODE"},
    {"CHECK_POINTERS", Outcome::warn, "deprecated since NCCL 2.29.7", "NCCL_CHECK_MODE"},
    // Not in the documentation under these names, yet set by good sites and images.
    {"NET_GDR_LEVEL", Outcome::pass, "", ""},
    {"IB_PKEY", Outcome::pass, "", ""},
    {"COMM_ID", Outcome::pass, "", ""},
    {"HOSTID", Outcome::pass, "", ""},
    {"GRAPH_FILE", Outcome::pass, "", ""},
    {"TUNER_CONFIG_FILE", Outcome::pass, "", ""},
    // What containers and builds set, for themselves.
    {"VERSION", Outcome::pass, "", ""},
    {"HOME", Outcome::pass, "", ""},
    {"DIR", Outcome::pass, "", ""},
    {"PATH", Outcome::pass, "", ""},
    {"ROOT", Outcome::pass, "", ""},
    {"ROOT_DIR", Outcome::pass, "", ""},
    {"LIB_DIR", Outcome::pass, "", ""},
    {"LIBRARY", Outcome::pass, "", ""},
    {"LIBRARIES", Outcome::pass, "", ""},
    {"INCLUDE_DIR", Outcome::pass, "", ""},
    {"INCLUDE_DIRS", Outcome::pass, "", ""},
    {"INCLUDE_PATH", Outcome::pass, "", ""},
});

/// Families that plugins and nccl-tests read.
constexpr std::array<std::string_view, 10> kOfOthers{"TESTS_", "FASTRAK_", "GPUDIRECTTCPX_", "FASTSOCKET_", "PLUGIN_",
                                                     "SHARP_", "IBEXT_",   "UCX_",           "OFI_",        "SHIMNET_"};

const NcclName* find_name(std::string_view bare) {
  const auto found = std::find_if(kNames.begin(), kNames.end(), [&](const NcclName& one) { return one.name == bare; });
  return found == kNames.end() ? nullptr : &*found;
}

std::string version_text(int number) {
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

int newest() {
  int most = 0;
  for (const NcclName& one : kNames) most = std::max(most, one.last);
  return most;
}

NameVerdict judge_unknown(std::string_view bare) {
  std::vector<std::string> choices;
  for (const NcclName& one : kNames) choices.emplace_back(one.name);
  // Without "NCCL_", which would make any two short names look alike.
  const std::string nearest = nearest_choice(bare, choices);
  return {Outcome::warn, fmt::format("no NCCL from 2.3.5 to {} reads it", version_text(newest())),
          nearest.empty() ? "unset it" : fmt::format("did you mean NCCL_{}?", nearest)};
}

}  // namespace

std::span<const NcclName> nccl_names() { return kNames; }

int nccl_version_number(std::string_view version) {
  int number = 0;
  for (const int scale : {10000, 100, 1}) {
    int part = 0;
    const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), part);
    if (error != std::errc{}) return 0;
    number += scale * part;
    version.remove_prefix(static_cast<std::size_t>(end - version.data()));
    if (scale != 1 && !version.starts_with('.')) return 0;
    if (scale != 1) version.remove_prefix(1);
  }
  return number;
}

NameVerdict judge_nccl_name(std::string_view name, int version) {
  std::string_view bare = name;
  bare.remove_prefix(std::min<std::size_t>(5, bare.size()));
  for (const Told& told : kTold) {
    if (told.name == bare) return {told.outcome, std::string(told.reason), std::string(told.remedy)};
  }
  const NcclName* known = find_name(bare);
  if (known == nullptr) {
    const bool other = std::any_of(kOfOthers.begin(), kOfOthers.end(),
                                   [&](std::string_view family) { return bare.starts_with(family); });
    return other ? NameVerdict{} : judge_unknown(bare);
  }
  const int in_use = version == 0 ? newest() : version;
  if (known->last < in_use && known->last < newest()) {
    return {Outcome::warn,
            known->last == 0 ? "no NCCL since 2.3.5 reads it"
                             : fmt::format("NCCL no longer reads it: {} was the last to", version_text(known->last)),
            "unset it"};
  }
  if (version != 0 && known->first > version) {
    return {
        Outcome::warn,
        fmt::format("NCCL {} does not read it: {} was the first to", version_text(version), version_text(known->first)),
        "unset it, or a newer NCCL"};
  }
  if (!known->documented) {
    return {Outcome::warn, "an internal of NCCL, undocumented: another version may take it otherwise",
            "unset it, unless NCCL's developers or the vendor's guide asked for it"};
  }
  return {};
}

}  // namespace busbar
