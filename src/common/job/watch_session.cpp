#include "common/job/watch_session.h"

#include "common/base/launch_uuid.h"
#include "common/base/records.h"
#include "common/mpi/collectively.h"
#include "common/mpi/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace busbar {
namespace {

// `busbar fingerprint` takes what a launch without calls sends from what one with calls sends: whatever differs
// between launches is sent in as many bytes.
constexpr std::size_t kJobidBytes = 32;

std::string padded(std::string jobid) {
  jobid.resize(std::max(jobid.size(), kJobidBytes), ' ');
  return jobid;
}

std::string unpadded(std::string jobid) {
  jobid.erase(jobid.find_last_not_of(' ') + 1);
  return jobid;
}

}  // namespace

Watchdog::Owner watched_owner(const Launch& launch, int argc, char** argv) {
  Watchdog::Owner owner;
  owner.rank = std::max(launch.rank, 0);
  owner.nprocs = launch.nprocs;
  owner.local_size = launch.local_size;
  owner.host = hostname();
  for (int i = 0; i < argc; ++i) {
    owner.command += i == 0 ? std::filesystem::path(argv[i]).filename().string() : fmt::format(" {}", argv[i]);
  }
  return owner;
}

void connect_watchers(const Comm& world, Watchdog& watchdog) {
  const bool is_named = !environment_jobid().empty();
  constexpr std::size_t kTellsApart = 12;
  const std::string jobid =
      unpadded(world.broadcast(padded(is_named ? watchdog.jobid() : make_launch_uuid().substr(0, kTellsApart)), 0));
  const std::string token = world.broadcast(world.rank() == 0 ? make_token() : "", 0);
  const bool one_host = on_one_host(world);
  const PeerAddress own = collectively_get(world, "opening the watchers' listener",
                                           [&] { return watchdog.listen(world.rank(), one_host, token); });
  std::string packed;
  for (const std::string& text : world.gather(pack_record({own.host, own.ip, fmt::format("{:05}", own.port)})))
    packed += text;
  packed = world.broadcast(packed, 0);
  std::vector<PeerAddress> peers;
  for (const std::vector<std::string>& fields : unpack_records(packed)) {
    peers.push_back({static_cast<int>(peers.size()), fields.at(0), fields.at(1),
                     static_cast<std::uint16_t>(std::stoi(fields.at(2)))});
  }
  watchdog.connect(jobid, std::move(peers));
}

}  // namespace busbar
