#include "driver/diagnose/job_book.h"
#include "driver/diagnose/net_devices.h"

#include <algorithm>
#include <bit>
#include <string>

// What lines tell of versions, settings, devices and choices: facts for people
// and for the comparison of ranks.

namespace busbar {

static std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}

static std::string_view between(std::string_view text, std::string_view before, std::string_view end_marks) {
  const std::size_t at = text.find(before);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + before.size());
  return text.substr(0, text.find_first_of(end_marks));
}

void JobBook::take(const ChannelCounts& counts, From&) {
  const auto tell = [&](std::string_view key, int value) {
    if (value >= 0) note(key, std::to_string(value));
  };
  tell("coll_channels", counts.coll);
  tell("collnet_channels", counts.collnet);
  tell("nvls_channels", counts.nvls);
  tell("p2p_channels", counts.p2p);
  tell("p2p_channels_per_peer", counts.p2p_per_peer);
}

void JobBook::take(const TuningChoice& choice, From&) {
  static constexpr std::string_view kAlgos[] = {"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE"};
  static constexpr std::string_view kProtos[] = {"LL", "LL128", "SIMPLE"};
  const auto word = [](std::string_view told, std::span<const std::string_view> names) {
    if (told.size() == 1 && told[0] >= '0' && static_cast<std::size_t>(told[0] - '0') < names.size())
      return std::string(names[static_cast<std::size_t>(told[0] - '0')]);
    std::string upper(told.substr(0, 32));
    std::transform(upper.begin(), upper.end(), upper.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return upper;
  };
  const std::string algo = word(choice.algo, kAlgos);
  const std::string proto = word(choice.proto, kProtos);
  note("tuning_algo", algo);
  note("tuning_proto", proto);
  if (tuning.size() >= kMaxFacts) return;
  ++tuning[{std::string(choice.op.substr(0, 64)), std::bit_width(choice.bytes), algo + "/" + proto}];
}

void JobBook::take(const VersionLine& version, From& from) {
  Process& process = processes[from.process];
  if (!version.nccl.empty()) process.nccl = version.nccl.substr(0, 64);
  if (!version.cuda.empty()) process.cuda = version.cuda.substr(0, 64);
  note("nccl_version", version.nccl);
  note("cuda_version", version.cuda);
}

void JobBook::take(const EnvSetting& setting, From& from) {
  Process& process = processes[from.process];
  std::string_view value = trimmed(setting.value);
  if (value.ends_with('.')) value.remove_suffix(1);
  std::string name(setting.name.substr(0, 100));
  note("env." + name, value.empty() ? "(empty)" : value);
  const auto known = process.env.find(name);
  if (known != process.env.end()) {
    known->second = value.substr(0, 300);
  } else if (process.env.size() < kMaxSettings) {
    process.env.emplace(std::move(name), std::string(value.substr(0, 300)));
  }
}

void JobBook::take(const NetworkInUse& network, From& from) {
  processes[from.process].network = trimmed(network.network).substr(0, 64);
  note("network", processes[from.process].network);
}

void JobBook::take(const NetDevices& devices, From& from) {
  Process& process = processes[from.process];
  for (const std::string& address : addresses_in(devices.oob)) process.addresses.insert(address);
  if (devices.network != "IB") {
    for (const std::string& address : addresses_in(devices.devices)) process.addresses.insert(address);
  }
  if (devices.network == "OFI") {
    note("provider", devices.devices.substr(0, devices.devices.find(' ')));
    note("nics", between(devices.devices, "(found ", " "));
    return;
  }
  if (devices.network == "IB" && trimmed(devices.devices).empty()) note("ib_device", "none");
  if (devices.relaxed_ordering) note("relaxed_ordering", "on");
  if (process.devices.size() < kMaxSettings) {
    process.devices[std::string(devices.network.substr(0, 64))] = trimmed(devices.devices).substr(0, 4096);
  }
  for (const NetDevice& device : net_devices(devices.devices)) {
    note(devices.network == "IB" ? "hca" : "interface", device.name);
    if (!device.link.empty()) note("link_layer", device.link);
  }
  for (const NetDevice& device : net_devices(devices.oob)) {
    note(devices.network == "Bootstrap" ? "bootstrap_interface" : "oob_interface", device.name);
  }
}

void JobBook::take(const GdrLine& gdr, From&) {
  note("gdr_line", std::string(gdr.enabled ? "enabled" : "disabled"));
  if (!gdr.hca.empty()) note(gdr.enabled ? "gdr_enabled_hca" : "gdr_disabled_hca", gdr.hca);
  if (gdr.distance >= 0) note("gdr_distance", std::to_string(gdr.distance) + " limit " + std::to_string(gdr.limit));
}

void JobBook::take(const Capability& capability, From&) {
  std::string key(capability.name.substr(0, 32));
  std::transform(key.begin(), key.end(), key.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  note(key, capability.available ? "available" : "not available");
}

void JobBook::take(const KernelEvent& event, From& from) {
  const std::string_view host = from.origin.host;
  const auto known = std::find_if(kernel.begin(), kernel.end(), [&](const KernelGroup& group) {
    return group.what == event.what && group.number == event.number && group.device == event.device.substr(0, 64) &&
           group.host == host.substr(0, 256);
  });
  if (known != kernel.end()) {
    ++known->times;
  } else if (kernel.size() < kMaxKernelGroups) {
    kernel.push_back({event.what, std::string(host.substr(0, 256)), std::string(event.device.substr(0, 64)),
                      std::string(event.text.substr(0, 300)), event.number, 1});
  }
}

// Lines that nothing else describes, by how they begin.
static constexpr struct {
  std::string_view begins, key, value;
} kOtherFacts[] = {
    {"CC Off", "cc", "off"},
    {"CC On", "cc", "on"},
    {"Launch mode Parallel", "launch_mode", "parallel"},
    {"Launch mode Group", "launch_mode", "group"},
    {"NET/IB : No device found", "ib_device", "none"},
    {"NET/Plugin : No plugin found", "net_plugin", "none"},
    {"NET/Plugin: Could not find", "net_plugin", "none"},
    {"TUNER/Plugin: Could not find", "tuner_plugin", "none"},
    {"RAS client listening", "ras", "listening"},
    {"RAS failed to establish", "ras", "port in use"},
    {"Trees [", "tree_lines", "present"},
    {"Tree ", "graph_tree_lines", "present"},
    {"Check P2P Type", "p2p_type_line", "present"},
    {"Enabled NCCL Func/Proto/Algo Matrix", "tuning_matrix", "present"},
};

void JobBook::take(const OtherLine& other, From& from) {
  const std::string_view text = other.text;
  if (!other.nccl) {
    take_foreign(text);
    return;
  }
  // Only the last line of a log is cut; whatever follows takes this back.
  actors[from.actor].cut = !other.chatter && text.find(": opCount") != std::string_view::npos;
  for (const auto& fact : kOtherFacts) {
    if (text.starts_with(fact.begins)) {
      note(fact.key, fact.value);
      return;
    }
  }
  if (text.starts_with("Channel ")) {  // a ring: "Channel 00/16 : 0 1 2"
    note("channels", trimmed(between(text.substr(0, 24), "/", " :")));
    note("ring_table", "present");
  } else if (text.starts_with("Ring ")) {
    note("graph_ring_lines", "present");
  } else if (text.starts_with("Assigned ") && text.find("plugin ") != std::string_view::npos) {
    note(text.starts_with("Assigned NET") ? "net_plugin_in_use" : "plugin_in_use", between(text, "plugin ", " "));
  } else if (text.starts_with("MNNVL 1")) {
    note("mnnvl", "on");
    note("mnnvl_clique_size", between(text, "cliqueSize ", " "));
  }
}

}  // namespace busbar
