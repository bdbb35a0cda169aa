#pragma once

#include "common/processes/launcher.h"
#include "common/processes/sockets/links.h"

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace busbar {

/// How the processes of a job find each other without MPI.
struct MeetRequest {
  Launch launch;
  std::string arguments;  ///< of the command line; must be the same everywhere
  std::string key = {};   ///< of --meet-key; empty: any process that can connect may join
  double limit_s = 0;     ///< for all of them to arrive; 0: for ever
};

/// What a process knows when all have met.
struct Meeting {
  Reception reception;  ///< of this process, for links
  std::string token;
  std::vector<JobMember> neighbors;  ///< and this process itself
  std::map<int, Socket> met;         ///< connections, by rank: of rank 0 to all others, of the others to it
};

/// Meets the other processes: rank 0 listens on MASTER_PORT or one of the next 15, the others ask these ports in turn.
/// Throws AgreedError on all processes if all know of the failure, and rank 0 is to say it; any other Error on those
/// that found it.
Meeting meet(const MeetRequest& request);

// The two sides of it. -------------------------------------------------------------------------------------------

/// `meeting`: has this process's reception.
void meet_as_rank0(const MeetRequest& request, const Hello& own, Meeting& meeting);
void seek_rank0(const MeetRequest& request, const Hello& own, Meeting& meeting);

/// The last port on which rank 0 may listen: torchrun's agent listens on MASTER_PORT itself.
int last_port(const Launch& launch);
/// 0: never.
std::chrono::steady_clock::time_point limit_from_now(double limit_s);
/// This end of a connection, in figures, as others of the job can use it.
std::string local_ip(const Socket& socket);
/// The address to name to the others: that of the interface that the user names for NCCL, else of that to rank 0.
std::string own_ip(const Socket& to_rank0);

}  // namespace busbar
