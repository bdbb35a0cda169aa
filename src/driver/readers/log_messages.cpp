#include "common/base/log_scan.h"
#include "driver/readers/log_line.h"
#include "driver/rules/line_rules.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace busbar {
namespace {

constexpr std::size_t kMaxDevices = 256;

/// Words and their values in any order and number: 2.3.5 has "size" among them, people cut columns out. A whole line of
/// NCCL has buffers and a communicator; one that has buffers only is cut.
bool read_values(LogScan scan, CollCall& call) {
  bool has_count = false, has_comm = false, has_buffers = false;
  while (!scan.rest.empty()) {
    if (scan.take("[nranks=")) {
      if (!scan.number(call.nranks) || !scan.take("]")) call.nranks = -1;
      scan.skip_blanks();
      continue;
    }
    if (has_comm) break;  // NCCL writes nothing of use after it
    const std::string_view key = scan.word();
    const std::string_view value = scan.word();
    if (key == "count") {
      has_count = whole_number(value, call.count);
    } else if (key == "sendbuff" || key == "recvbuff") {
      has_buffers = has_buffers || !value.empty();
    } else if (key == "datatype") {
      call.dtype = value;
    } else if (key == "op") {
      call.redop = value;
    } else if (key == "root") {
      whole_number(value, call.root);
    } else if (key == "comm") {
      has_comm = !scan.rest.empty() && pointer_of(value, call.comm);
    }
  }
  return has_count && (has_comm || !has_buffers);
}

}  // namespace

bool parse_call(std::string_view text, LogFact& fact) {
  LogScan scan{text};
  const std::string_view op = scan.name();
  std::uint64_t op_count = 0;
  if (op.empty() || !scan.take(": opCount ") || !scan.hexadecimal(op_count) || !scan.take(" ")) return false;
  CollCall& call = fact.emplace<CollCall>();
  if (!read_values(scan, call)) {
    fact.emplace<OtherLine>();
    return false;
  }
  call.op = op;
  call.op_count = op_count;
  return true;
}

bool parse_message(std::string_view text, LogFact& fact) {
  const LineRules& rules = builtin_line_rules();
  const LineShape shape = rules.shape_in("messages", text);
  if (InitTimings timings; shape.key == "init-timings") {
    if (!read_init_timings(LogScan{shape.text("rest")}, timings)) return false;
    fact = timings;
  } else if (!shape.key.empty()) {
    fact = shape;
  } else if (rules.has("quiet-warnings", text)) {
    fact = Warning{.file = {}, .function = {}, .text = text};
  } else {
    return false;
  }
  return true;
}

std::vector<NetDevice> net_devices(std::string_view list) {
  std::vector<NetDevice> devices;
  for (std::string_view token : split_text(list, ' ')) {
    if (devices.size() == kMaxDevices) break;
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
    const std::size_t begin = text.find_last_of(" []", at == 0 ? 0 : at - 1) + 1;
    std::string_view address = text.substr(begin, at - begin);
    // "eth0:10.0.0.1": an interface in front; an IPv6 address alone has more colons and begins with a hex digit.
    if (const std::size_t colon = address.find(':'); colon != std::string_view::npos) {
      const std::string_view rest = address.substr(colon + 1);
      if (std::ranges::count(address, ':') == 1 || mentions(rest, "::") || std::ranges::count(rest, ':') == 7)
        address = rest;
    }
    const std::size_t end = text.find_first_not_of("0123456789", at + 1);  // not "[2:11:40<3:20:05", a progress bar's
    const bool port = at + 1 < text.size() && is_digit(text[at + 1]) && (end == text.npos || text[end] == '>');
    if (port && !address.empty() && address.size() <= 256) addresses.emplace_back(address);
  }
  if (addresses.empty()) {
    for (const auto& [key, address] : builtin_line_rules().facts_in("peers", text)) addresses.push_back(address);
  }
  return addresses;
}

}  // namespace busbar
