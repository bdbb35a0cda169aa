#include "common/processes/session.h"

#include "common/base/text.h"
#include "common/machine/resources.h"
#include "common/processes/mpi/mpi_session.h"
#include "common/processes/sockets/socket_group.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <exception>
#include <numeric>
#include <sstream>
#include <vector>

namespace busbar {
namespace {

/// The processes know their neighbors; the rest of the table comes over these.
Comm connect_all(const std::shared_ptr<Links>& links, int nprocs) {
  std::vector<int> all(static_cast<std::size_t>(nprocs));
  std::iota(all.begin(), all.end(), 0);
  Comm world(std::make_unique<SocketGroup>(links, std::move(all), 0));
  std::vector<JobMember> members;
  for (int rank = 0; world.rank() == 0 && rank < nprocs; ++rank) members.push_back(links->member(rank));
  members = unpack_fields<std::vector<JobMember>>(world.broadcast(pack_fields(members), 0));
  links->add_members(members);
  const std::string& machine = links->member(world.rank()).machine;
  const auto here = std::ranges::count_if(members, [&](const JobMember& m) { return m.machine == machine; });
  links->let_spin(here <= job_cores());
  return world;
}

std::shared_ptr<Links> make_links(const MeetRequest& request, Links::OnEnd on_end) {
  Meeting meeting = meet(request);
  auto links = std::make_shared<Links>(request.launch.rank, std::move(meeting.reception), std::move(meeting.token),
                                       std::move(meeting.met), std::move(on_end));
  links->add_members(meeting.neighbors);
  return links;
}

}  // namespace

Session::Session(const MeetRequest& request, Links::OnEnd on_end)
    : links_(make_links(request, std::move(on_end))), world_(connect_all(links_, request.launch.nprocs)) {}

Session::Session(int* argc, char*** argv, MpiThreads threads) : world_(start_mpi(argc, argv, threads)) {}

Session::~Session() {
  if (std::uncaught_exceptions() > 0) world_.end_job(ExitCode::internal);
  if (links_) {
    world_.barrier();
    links_->finish();
    return;
  }
  { const Comm freed = std::move(world_); }
  finish_mpi();
}

std::string short_library_version(std::string_view text) {
  // "Open MPI v4.1.4, package: ...", "MPICH Version:\t4.0.2\nMPICH Release date: ...", "Intel(R) MPI Library 2021.13
  // for Linux* OS\n".
  std::istringstream words{std::string(text.substr(0, text.find_first_of(",\n")))};
  std::vector<std::string> kept;
  for (std::string word; words >> word;) {
    if (word == "Version:" || word == "Version" || word == ":") continue;
    const bool is_number = word.size() > 1 && word[0] == 'v' && std::isdigit(static_cast<unsigned char>(word[1])) != 0;
    kept.push_back(is_number ? word.substr(1) : word);
  }
  return joined_words(kept);
}

std::string hostname() {
  std::array<char, 256> text{};
  gethostname(text.data(), text.size() - 1);
  const std::string name(text.data());
  return name.substr(0, name.find('.', 1));  // ".odd" is a name, too
}

}  // namespace busbar
