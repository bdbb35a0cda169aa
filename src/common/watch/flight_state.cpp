#include "common/watch/flight_state.h"

namespace busbar {

std::string_view name(Phase phase) {
  switch (phase) {
    case Phase::starting:
      return "starting";
    case Phase::mpi_init:
      return "MPI_Init";
    case Phase::initialization:
      return "initialization";
    case Phase::allocating:
      return "allocation";
    case Phase::preparing:
      return "preparation of data";
    case Phase::timed_loop:
      return "timed loop";
    case Phase::checking:
      return "check";
    case Phase::agreeing:
      return "agreement";
    case Phase::output:
      return "output";
    case Phase::finishing:
      return "end of the run";
    case Phase::mpi_finalize:
      return "MPI_Finalize";
    case Phase::resting:
      return "rest";
    case Phase::ended:
      return "ended";
  }
  return "?";
}

}  // namespace busbar
