#include "driver/accept/accept_hosts.h"

#include "common/base/records.h"
#include "common/mpi/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace busbar {
namespace {

/// "NVIDIA H200 x 8", "host memory".
std::string devices_text(const std::map<std::string, int>& devices) {
  std::string text;
  for (const auto& [name, count] : devices) {
    const bool counts = name != "host memory";
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", name, counts ? fmt::format(" x {}", count) : "");
  }
  return text;
}

}  // namespace

std::vector<AcceptResult::Host> describe_hosts(const Comm& world, const Backend& backend) {
  const std::vector<int> local(backend.local_ranks().begin(), backend.local_ranks().end());
  std::string packed;
  for (std::size_t i = 0; i < local.size(); ++i) {
    const DeviceInfo device = backend.device(static_cast<int>(i));
    packed += pack_record({hostname(), std::to_string(local[i]), device.name, device.id});
  }
  std::vector<AcceptResult::Host> hosts;
  std::map<std::string, std::map<std::string, int>> devices;
  std::map<std::string, std::vector<std::string>> ids;
  for (const std::string& of_process : world.gather(packed)) {
    for (const std::vector<std::string>& f : unpack_records(of_process)) {
      auto host = std::find_if(hosts.begin(), hosts.end(), [&](const auto& h) { return h.name == f.at(0); });
      if (host == hosts.end()) host = hosts.insert(hosts.end(), {f.at(0), {}, {}});
      host->ranks.push_back(std::stoi(f.at(1)));
      // Several ranks may share a GPU.
      std::vector<std::string>& seen = ids[f.at(0) + "\n" + f.at(2)];
      if (std::find(seen.begin(), seen.end(), f.at(3)) != seen.end()) continue;
      seen.push_back(f.at(3));
      ++devices[f.at(0)][f.at(2)];
    }
  }
  for (AcceptResult::Host& host : hosts) host.device = devices_text(devices[host.name]);
  return hosts;
}

}  // namespace busbar
