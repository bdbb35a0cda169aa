// Loaded before a program (LD_PRELOAD): rank FAKE_STUCK_RANK never comes back from its FAKE_STUCK_CALLth
// MPI_Comm_create_group, as where a communicator is made over a network that lost a rank.

#include <mpi.h>
#include <unistd.h>

#include <cstdlib>

namespace {

int number(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : -1;
}

}  // namespace

extern "C" int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* made) {
  static int calls = 0;
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  while (rank == number("FAKE_STUCK_RANK") && calls + 1 == number("FAKE_STUCK_CALL")) ::pause();
  ++calls;
  return PMPI_Comm_create_group(comm, group, tag, made);
}
