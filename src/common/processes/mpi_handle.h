#pragma once

// The one door to MPI's own handles; only files that call MPI include it.

#define OMPI_SKIP_MPICXX 1
#include "common/processes/comm.h"

#include <mpi.h>

namespace busbar {

struct Comm::Impl {
  MPI_Comm comm = MPI_COMM_NULL;
  bool owned = false;
};

inline MPI_Comm handle(const Comm& comm) { return comm.impl().comm; }

}  // namespace busbar
