#include "common/mpi/session.h"

#include "common/base/text.h"
#include "common/mpi/mpi_handle.h"

#include <unistd.h>

#include <array>
#include <cctype>
#include <exception>
#include <sstream>
#include <vector>

namespace busbar {
namespace {

Comm start(int* argc, char*** argv) {
  int provided = 0;
  // FUNNELED: the launching threads of -t and the watchdog never call MPI.
  MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
  if (provided < MPI_THREAD_FUNNELED) {
    throw Error(ExitCode::backend, "this MPI library offers no MPI_THREAD_FUNNELED; use one that supports threads");
  }
  auto impl = std::make_unique<Comm::Impl>();
  MPI_Comm_dup(MPI_COMM_WORLD, &impl->comm);
  impl->owned = true;
  return Comm(std::move(impl));
}

}  // namespace

Session::Session(int* argc, char*** argv) : world_(start(argc, argv)) {}

Session::~Session() {
  if (std::uncaught_exceptions() > 0) abort_job(ExitCode::internal);
  { const Comm freed = std::move(world_); }
  // Where MPI_T was started (Open MPI's settings) it must end first: Open MPI 4.1.4 crashes in the other order, and
  // without an end keeps its components from writing what they counted.
  int variables = 0;
  if (MPI_T_cvar_get_num(&variables) == MPI_SUCCESS) MPI_T_finalize();
  MPI_Finalize();
}

std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  return short_library_version({text.data(), static_cast<std::size_t>(length)});
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
  return name.substr(0, name.find('.'));
}

void abort_job(ExitCode code) {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  int main_thread = 0;
  if (initialized != 0 && finalized == 0) MPI_Is_thread_main(&main_thread);
  // Other threads may not call MPI_Abort here (FUNNELED); the launcher ends the job when a process leaves by itself.
  if (main_thread != 0) MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  _exit(static_cast<int>(code));
}

}  // namespace busbar
