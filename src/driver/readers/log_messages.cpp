#include "common/base/log_scan.h"
#include "driver/readers/log_line.h"
#include "driver/rules/line_rules.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>
#include <variant>

namespace busbar {
namespace {

std::uint64_t pointer_in(const LineShape& of, std::string_view name) {
  std::uint64_t value = 0;
  pointer_of(of.text(name), value);
  return value;
}

/// "IB/0(8)/GDRDMA/Shared": the network's name ends before "/DEVICE", and may hold spaces and '/'.
std::string_view network_of(std::string_view detail) {
  for (std::size_t at = detail.find('/'); at != std::string_view::npos; at = detail.find('/', at + 1)) {
    if (at + 1 < detail.size() && is_digit(detail[at + 1])) return detail.substr(0, at);
  }
  return detail.substr(0, detail.find('/'));
}

LogFact connection_of(const LineShape& of) {
  Connection connection;
  connection.src = of.number("src");
  connection.dst = of.number("dst");
  connection.transport = of.text("transport");
  connection.detail = of.text("detail");
  if (const std::string_view old = of.text("shm"); !old.empty()) {  // up to 2.12
    connection.transport = "SHM";
    connection.detail = old;
  } else if (connection.transport == "NET" || connection.transport == "COLLNET") {
    connection.network = network_of(connection.detail);
    connection.gdr = mentions(connection.detail, "/GDRDMA");
  }
  return connection;
}

LogFact connected_of(const LineShape& of) {
  const std::string_view what = of.text("what");
  return Connected{.what = what.starts_with("NVLS")  ? Connected::What::nvls
                           : what.ends_with("rings") ? Connected::What::rings
                                                     : Connected::What::trees,
                   .pxn = of.number("pxn"),
                   .gdr = of.number("gdr")};
}

LogFact init_of(const LineShape& of) {
  return InitEvent{.function = of.text("function"),
                   .comm = pointer_in(of, "comm"),
                   .rank = of.number("rank"),
                   .nranks = of.number("nranks"),
                   .cuda_dev = of.number("dev"),
                   .bus_id = of.text("bus"),
                   .comm_id = pointer_in(of, "id"),
                   .parent = pointer_in(of, "parent"),
                   .color = of.number<std::int64_t>("color"),
                   .complete = of.text("end") == "COMPLETE"};
}

LogFact init_timings_of(const LineShape& of) {
  InitTimings timings;
  return read_init_timings(LogScan{of.text("rest")}, timings) ? LogFact(timings) : LogFact();
}

LogFact devices_of(const LineShape& of) {
  return NetDevices{.network = of.text("network").empty() ? "Bootstrap" : of.text("network"),
                    .devices = of.text("devices"),
                    .oob = of.text("oob"),
                    .relaxed_ordering = !of.text("order").empty()};
}

LogFact shape_of(const LineShape& of) {
  return CommShape{.comm = pointer_in(of, "comm"),
                   .rank = of.number("rank"),
                   .nranks = of.number("nranks"),
                   .nnodes = of.number("nnodes")};
}

LogFact end_of(const LineShape& of) {
  return CommEnd{.comm = pointer_in(of, "comm"), .rank = of.number("rank"), .abort = of.text("end") == "Abort"};
}

/// By the keys of `messages` in configs/rules/lines/general.yaml.
constexpr std::pair<std::string_view, LogFact (*)(const LineShape&)> kReaders[] = {
    {"connection", connection_of},
    {"connected", connected_of},
    {"comm-shape", shape_of},
    {"comm-end", end_of},
    {"init", init_of},
    {"init-timings", init_timings_of},
    {"bootstrap-timings", [](const LineShape& of) -> LogFact { return BootstrapTimings{of.number<double>("total")}; }},
    {"version",
     [](const LineShape& of) -> LogFact {
       return VersionLine{of.text("nccl"), of.text("cuda")};
     }},
    {"setting",
     [](const LineShape& of) -> LogFact {
       return EnvSetting{of.text("name"), of.text("value")};
     }},
    {"network", [](const LineShape& of) -> LogFact { return NetworkInUse{of.text("network")}; }},
    {"devices", devices_of},
    {"return-code",
     [](const LineShape& of) -> LogFact {
       return ReturnCode{of.number("code"), of.text("thread")};
     }},
};

constexpr std::size_t kMaxDevices = 256;

}  // namespace

bool parse_message(std::string_view text, LogFact& fact) {
  const LineRules& rules = builtin_line_rules();
  const LineShape shape = rules.shape_in("messages", text);
  const auto reader = std::ranges::find(kReaders, shape.key, [](const auto& one) { return one.first; });
  if (reader != std::end(kReaders)) {
    fact = reader->second(shape);
    return !std::holds_alternative<OtherLine>(fact);
  }
  if (!rules.has("quiet-warnings", text)) return false;
  fact = Warning{.file = {}, .function = {}, .text = text};
  return true;
}

std::vector<NetDevice> net_devices(std::string_view list) {
  std::vector<NetDevice> devices;
  while (devices.size() < kMaxDevices) {
    const std::size_t begin = list.find_first_not_of(' ');
    if (begin == std::string_view::npos) break;
    list.remove_prefix(begin);
    std::string_view token = list.substr(0, list.find(' '));
    list.remove_prefix(token.size());
    if (token.starts_with('[')) token.remove_prefix(std::min(token.find(']'), token.size() - 1) + 1);
    const std::size_t colon = token.find(':');
    if (token.empty() || colon == std::string_view::npos || colon == 0) continue;  // "[RO];"
    NetDevice device;
    device.name = token.substr(0, std::min<std::size_t>(colon, 64));
    if (const std::size_t slash = token.find('/', colon); slash != std::string_view::npos) {
      device.link = token.substr(slash + 1, 16);
      while (!device.link.empty() && (device.link.back() == ';' || device.link.back() == ',')) device.link.pop_back();
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

std::vector<std::string> addresses_in(std::string_view text) {
  std::vector<std::string> addresses;
  for (std::size_t at = text.find('<'); at != std::string_view::npos && addresses.size() < kMaxDevices;
       at = text.find('<', at + 1)) {
    std::size_t begin = text.find_last_of(" []", at == 0 ? 0 : at - 1);
    begin = begin == std::string_view::npos ? 0 : begin + 1;
    std::string_view address = text.substr(begin, at - begin);
    // "eth0:10.0.0.1": an interface in front; an IPv6 address alone has more colons and begins with a hex digit.
    if (const std::size_t colon = address.find(':'); colon != std::string_view::npos) {
      const std::string_view rest = address.substr(colon + 1);
      if (std::ranges::count(address, ':') == 1 || mentions(rest, "::") || std::ranges::count(rest, ':') == 7)
        address = rest;
    }
    if (!address.empty() && address.size() <= 256) addresses.emplace_back(address);
  }
  if (addresses.empty()) {
    for (const auto& [key, address] : builtin_line_rules().facts_in("peers", text)) addresses.push_back(address);
  }
  return addresses;
}

}  // namespace busbar
