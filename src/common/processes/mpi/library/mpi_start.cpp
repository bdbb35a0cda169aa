#include "common/processes/mpi/library/mpi_start.h"

#include "common/base/enum_words.h"
#include "common/processes/mpi/library/mpi_group.h"
#include "common/processes/session.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace busbar::mpi_library {
namespace {

constexpr std::array<int, words_of(MpiThreads{}).size()> kLevels{MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED,
                                                                 MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};

}  // namespace

std::unique_ptr<ProcessGroup> start(int* argc, char*** argv, MpiThreads threads) {
  int provided = 0;
  MPI_Init_thread(argc, argv, kLevels.at(static_cast<std::size_t>(threads)), &provided);
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  return std::make_unique<MpiGroup>(own, MpiGroup::Owned::yes);
}

void finish() {
  // If MPI_T was started (Open MPI's settings), it must end first: Open MPI 4.1.4 crashes in the other order. If it
  // never ends, its components do not write what they counted.
  int variables = 0;
  if (MPI_T_cvar_get_num(&variables) == MPI_SUCCESS) MPI_T_finalize();
  MPI_Finalize();
}

MpiThreads granted_threads() {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  // The levels are ordered numbers, not always 0 to 3.
  const auto above = std::upper_bound(kLevels.begin(), kLevels.end(), level);
  return static_cast<MpiThreads>(std::max<std::ptrdiff_t>(above - kLevels.begin() - 1, 0));
}

std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  return short_library_version({text.data(), static_cast<std::size_t>(length)});
}

void abort_job(ExitCode code) {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  // Only the main thread calls MPI, whatever its level; the launcher ends the job if a process leaves by itself.
  if (initialized != 0 && finalized == 0 && gettid() == getpid()) MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  _exit(static_cast<int>(code));
}

}  // namespace busbar::mpi_library
