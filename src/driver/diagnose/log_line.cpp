#include "driver/diagnose/log_line.h"

#include "common/machine/kernel_log.h"
#include "driver/diagnose/log_messages.h"
#include "driver/diagnose/log_prefix.h"
#include "driver/diagnose/log_scan.h"
#include "driver/diagnose/torch_watchdog.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

namespace busbar {
namespace {

/// How well-known messages begin that say nothing of use here, by subject.
constexpr std::string_view kChatter[] = {
    // Versions, libraries, plugins.
    "cudaDriverVersion ", "NCCL git version", "Loaded NVML", "NET/Plugin", "TUNER/Plugin", "PROFILER/Plugin",
    "ENV/Plugin", "GIN/Plugin", "RMA/Plugin", "Plugin Path", "P2P plugin", "Initialized NET plugin",
    "Failed to initialize NET plugin", "Assigned ", "Using non-device net plugin", "Using tuner plugin",
    "Successfully loaded", "GDRCOPY",
    // Settings.
    "Comm config ", "P2P Chunksize set", "Check P2P Type", "Launch mode", "Threads per block", "threadThresholds",
    "Symmetric VA size", "Setting affinity", "ncclTopoGetCpuAffinity", "Enabled NCCL Func", "Init CE", "workFifo",
    // The network and its ranks.
    "NET/", "Local Net device counts", "MNNVL ", "Rank ", "rank ", "RAS ",
    // Topology and graphs: with GRAPH on they are most of an init.
    "Channel ", "Ring ", "Tree ", "Trees ", "Pattern ", "=== System", "======", "CPU/", "PCI/", "GPU/", "NIC/", "NVS/",
    "+ ", "- ", "(", "KV Convert", "Topology detection", "Algorithm ", "Protocol ", "Max NThreads", "Broadcast |",
    "Reduce |", "AllGather |", "ReduceScatter |", "AllReduce |",
    // Proxies, memory, registration.
    "[Proxy ", "New proxy", "Connected to proxy", "Connected ", "Opened ", "proxy", "Proxy", "UDS", "NVLS ", "CollNet",
    "COLLNET", "register ", "Register ", "regist", "ncclCommRegister", "ncclCommDeregister", "Allocated ", "Cuda Alloc",
    "Cuda Host Alloc", "Mem Alloc", "Mem Realloc", "CUMEM", "cuMem", "Memory used"};

/// Whether NCCL is known to print this: such lines do not count as unknown, so that the unknown ones show what a new
/// version has changed.
bool is_chatter(std::string_view text) {
  return std::any_of(std::begin(kChatter), std::end(kChatter),
                     [text](std::string_view begin) { return text.starts_with(begin); });
}

/// Without blanks, carriage return, the "\e[0m" of coloured output, and what docker's files have behind a line.
std::string_view without_end(std::string_view line) {
  if (line.starts_with("{\"log\":\"")) line = line.substr(0, line.find("\\n\",\""));
  for (;;) {
    while (!line.empty() && (is_blank(line.back()) || line.back() == '\r')) line.remove_suffix(1);
    if (!line.ends_with("\x1b[0m")) return line;
    line.remove_suffix(4);
  }
}

/// What NCCL says in a message, by the families of shapes; calls first, because they come by the million.
bool parse_message(std::string_view text, LogFact& fact) {
  return parse_call(text, fact) || parse_transport(text, fact) || parse_init(text, fact) || parse_tuning(text, fact) ||
         parse_setting(text, fact) || parse_network(text, fact) || parse_trouble(text, fact);
}

/// Where "Op: opCount" or "Op: 1024 Bytes -> Algo" begin in a line without a prefix: the message of one process that
/// another's prefix was written into, or what grep left of it.
std::size_t find_orphan(std::string_view line) {
  std::size_t at = find_word(line, ": opCount ", 5);
  if (at == kNotFound) {
    at = find_word(line, " Bytes -> Algo ", 7);
    if (at == kNotFound) return kNotFound;
    while (at > 0 && is_digit(line[at - 1])) --at;
    if (at < 3 || line.substr(at - 2, 2) != ": " || is_digit(line[at - 3])) return at;  // "0: " is srun's
    at -= 2;
  }
  while (at > 0 && is_name(line[at - 1])) --at;
  return at;
}

/// Lines that NCCL alone writes, from the first letter to the last.
bool parse_bare_message(std::string_view text, LogFact& fact) {
  constexpr std::string_view kBegins[] = {"Channel ", "Connected all ", "comm 0x", "ncclComm", "Init timings"};
  for (const std::string_view begin : kBegins) {
    if (text.starts_with(begin)) return parse_transport(text, fact) || parse_init(text, fact);
  }
  return false;
}

/// Whether it is worth the effort to look for PyTorch or a kernel in a line: by one word that their lines have.
bool may_be_torch(std::string_view line) { return find_word(line, "NCCL", 3) != kNotFound; }

bool may_be_kernel(std::string_view line) {
  return line.starts_with('[') || line.starts_with('<') || line.starts_with("kern") ||
         find_word(line, " kernel:", 1) != kNotFound || find_word(line, "NVRM", 1) != kNotFound;
}

/// A line without any prefix.
void parse_bare(std::string_view line, LogLine& result) {
  if (may_be_torch(line) && parse_torch_line(line, result)) return;
  if (may_be_kernel(line)) {
    if (const auto message = parse_kernel_line(line)) {
      result.origin = {};
      result.origin.host = message->host;
      result.origin.timestamp = message->timestamp;
      result.fact = message->event;
      return;
    }
  }
  const std::size_t at = find_orphan(line);
  if (at != kNotFound) {
    const std::string_view text = line.substr(at);
    if (parse_call(text, result.fact) || parse_tuning(text, result.fact)) {
      result.origin.decoration = without_blanks(line.substr(0, at));
      result.origin.timestamp = find_iso_timestamp(result.origin.decoration);
      return;
    }
  }
  if (parse_bare_message(line, result.fact)) return;
  result.fact = OtherLine{.nccl = false, .text = line};
}

}  // namespace

LogLine parse_log_line(std::string_view line) {
  LogLine result;
  line = without_end(line);
  const LogPrefix prefix = split_log_prefix(line, result.origin);
  if (prefix.level == LogLevel::none) {
    parse_bare(line, result);
    return result;
  }
  if (prefix.level == LogLevel::warn) {
    result.fact = Warning{.file = prefix.file, .function = prefix.function, .text = prefix.text};
  } else if (!parse_message(prefix.text, result.fact)) {
    if (prefix.level == LogLevel::version) return {.origin = {}, .fact = OtherLine{.nccl = false, .text = line}};
    const bool known = prefix.level != LogLevel::info || is_chatter(prefix.text);
    result.fact = OtherLine{.nccl = true, .text = prefix.text, .chatter = known};
  }
  return result;
}

}  // namespace busbar
