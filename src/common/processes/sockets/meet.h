#pragma once

#include "common/processes/launcher.h"
#include "common/processes/sockets/links.h"

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

}  // namespace busbar
