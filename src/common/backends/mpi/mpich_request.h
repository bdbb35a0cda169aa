#pragma once

#include "common/backends/mpi/mpich_algorithms.h"

#include <memory>
#include <string>
#include <string_view>

namespace busbar {

/// What --show-algo says: "default", "requested:ring", "unknown" where MPICH would run another one or is not the
/// library. Local; MPI must be up. Starts MPI_T.
std::string requested_mpich_algorithm(const Operation& op, bool many_hosts);

/// An algorithm to put in force while calls are made. Every rank must make the same one. Throws Error(bad_config)
/// naming the choices, Error(not_possible) where this library has it not.
class MpichRequest {
 public:
  MpichRequest(const Collective& collective, std::string_view algorithm);

  /// In force until it goes.
  std::shared_ptr<void> put_in_force() const;

 private:
  std::string algorithm_variable_;
  std::string device_variable_;
  std::string number_;
};

}  // namespace busbar
