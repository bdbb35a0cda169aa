#include "common/processes/sockets/meet.h"

#include "common/base/error.h"
#include "common/base/random_source.h"
#include "common/machine/machine_facts.h"
#include "common/processes/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace busbar {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPorts = 16;

MeetJob job_of(const Launch& launch) { return {launch.job, launch.nprocs}; }

/// What this process says of itself; where it is reached is found later.
Hello own_hello(const MeetRequest& request, std::uint16_t port) {
  Hello hello;
  hello.version = BUSBAR_VERSION;
  hello.job = job_of(request.launch);
  hello.arguments = request.arguments;
  hello.member = {request.launch.rank, getpid(), hostname(), this_machine(), "", port};
  hello.nonce = random_id();
  return hello;
}

/// Of the interface that the user names for NCCL; empty: none. Throws Error(bad_config) if there is no such interface.
std::string named_ip() {
  const char* named = std::getenv("NCCL_SOCKET_IFNAME");
  const auto only_nccl = [](const char* name) -> const char* {
    return std::string_view(name) == "NCCL_SOCKET_IFNAME" ? std::getenv(name) : nullptr;
  };
  return named != nullptr && *named != '\0' ? job_interface_address(false, only_nccl) : "";
}

}  // namespace

int last_port(const Launch& launch) { return std::min(launch.master_port + kPorts - 1, 65535); }

Clock::time_point limit_from_now(double limit_s) {
  if (limit_s <= 0) return Clock::time_point::max();
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_s));
}

std::string local_ip(const Socket& socket) {
  std::string ip = ip_text(local_address(socket.fd()).get());
  constexpr std::string_view kMapped = "::ffff:";
  return ip.starts_with(kMapped) && ip.find('.') != std::string::npos ? ip.substr(kMapped.size()) : ip;
}

std::string own_ip(const Socket& to_rank0) {
  const std::string named = named_ip();
  return named.empty() ? local_ip(to_rank0) : named;
}

Meeting meet(const MeetRequest& request) {
  const Launch& launch = request.launch;
  Socket listener = listen_everywhere(0);
  if (!listener.open()) throw_not_possible(fmt::format("no port to listen on: {}", std::strerror(errno)));
  Meeting meeting{Reception(std::move(listener), HelloKind::link, ""), "", {}, {}};
  const Hello own = own_hello(request, meeting.reception.port());
  if (launch.nprocs == 1) {
    meeting.neighbors = {own.member};
    return meeting;
  }
  (void)named_ip();  // every process finds the mistake before it waits for another
  launch.rank == 0 ? meet_as_rank0(request, own, meeting) : seek_rank0(request, own, meeting);
  return meeting;
}

}  // namespace busbar
