#include "common/base/error.h"
#include "common/base/text.h"
#include "common/watch/flight_record.h"
#include "driver/diagnose/diagnose_inputs.h"
#include "driver/diagnose/looks/look_checks.h"
#include "driver/readers/call_records.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <span>
#include <utility>

namespace busbar {
namespace {

/// RFC 4648; whatever is no letter of it is passed over.
std::string from_base64(std::string_view text) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  int held = 0;
  for (const char letter : text) {
    const std::size_t six = kLetters.find(letter);
    if (six == kNotFound) continue;
    bits = bits << 6 | static_cast<std::uint32_t>(six);
    held += 6;
    if (held >= 8) bytes += static_cast<char>(bits >> (held -= 8) & 0xff);
  }
  return bytes;
}

/// The rank whose dump it is: of the process that writes it, else by its name.
int rank_of(const HostLook& host, const LookDump& dump) {
  for (const LookProcess& process : host.processes) {
    if (process.pid == dump.pid && dump.pid != 0 && process.rank >= 0) return process.rank;
  }
  return dump.rank;
}

/// A dump of an earlier job in the same place says nothing of this one.
bool is_of_job(const HostLook& host, const LookDump& dump) {
  double started_s = 0;
  for (const LookProcess& process : host.processes) {
    if (process.pid == dump.pid || dump.pid == 0) started_s = std::max(started_s, process.start_s);
  }
  return dump.age_s < 0 || started_s <= 0 || host.time_s - dump.age_s >= started_s;
}

bool is_flight(const LookDump& dump) {
  return std::filesystem::path(dump.path).filename().string().starts_with("busbar.");
}

}  // namespace

std::map<int, FlightState> flights_in(const JobLook& looks) {
  std::map<int, FlightState> flights;
  for (const HostLook& host : looks.hosts) {
    for (const LookDump& dump : host.dumps) {
      if (!is_flight(dump)) continue;
      const std::string text = from_base64(dump.base64);
      const auto bytes = std::as_bytes(std::span(text));
      constexpr double kFar = 4e9;  // [s] later than any beat: its age then shows when it was, by its host's clock
      auto flight = parse_flight(bytes, std::llround(kFar * 1e9));
      if (!flight) continue;
      const double silent_s = host.time_s + host.look_s - static_cast<double>(flight->beat_unix_s);
      const double now_s = kFar - flight->heartbeat_age_s + std::clamp(silent_s, 0.0, 1e6);
      flight = parse_flight(bytes, std::llround(std::clamp(now_s, 0.0, kFar) * 1e9));
      if (flight && flight->rank >= 0 && is_named(flight->rank)) flights.emplace(flight->rank, std::move(*flight));
    }
  }
  return flights;
}

std::optional<Diagnosis> diagnose_dumps(const JobLook& looks) {
  JobBook book;
  std::vector<LogFile> files;
  for (const HostLook& host : looks.hosts) {
    for (const LookDump& dump : host.dumps) {
      if (dump.base64.empty() || is_flight(dump) || !is_of_job(host, dump)) continue;
      LogFile& file = files.emplace_back();
      file.path = dump.path;
      try {
        for (TorchDump& one : read_torch_dumps(from_base64(dump.base64), dump.path)) {
          if (one.rank < 0) one.rank = rank_of(host, dump);
          book.add(one, files.size() - 1);
        }
      } catch (const Error& error) {
        file.trouble = error.what();
      }
    }
  }
  if (files.empty()) return std::nullopt;
  return book.conclude(std::move(files), {});
}

std::optional<Diagnosis> diagnose_logs(const JobLook& looks) {
  std::vector<InputFile> files;
  std::set<std::string> known;  // a file that all hosts see counts once
  for (const HostLook& host : looks.hosts) {
    for (const LookLog& log : host.logs) {
      if (log.text.empty() || !known.insert(log.path + "\n" + log.text).second) continue;
      files.push_back(input_in_memory(log.path, log.text));
    }
  }
  if (files.empty()) return std::nullopt;
  ReadLogs logs = read_logs(files, 0);
  return logs.job.conclude(std::move(logs.files), logs.ras);
}

}  // namespace busbar
