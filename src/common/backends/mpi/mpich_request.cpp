#include "common/backends/mpi/mpich_request.h"

#include "common/backends/mpi/mpi_tool_variable.h"
#include "common/backends/mpi/ompi_algorithms.h"
#include "common/backends/transfers.h"
#include "common/base/error.h"
#include "common/base/text.h"
#include "common/processes/session.h"

#include <fmt/format.h>

#include <optional>

namespace busbar {

std::string requested_mpich_algorithm(const Operation& op, bool many_hosts) {
  const MpichCollective* known = mpich_collective(op.collective->id);
  if (only_transfers(*op.collective)) return "-";
  if (known == nullptr) return "unknown";
  start_mpi_tool();
  const std::string variable = mpich_algorithm_variable(*known);
  const std::optional<std::string> number = read_mpi_variable(variable);
  if (!number) return "unknown";
  if (*number == "0" || op.problem.nranks < 2) return "default";
  const std::string description = mpi_variable_description(variable);
  for (const MpichAlgorithm& algorithm : known->algorithms) {
    if (std::to_string(mpich_algorithm_number(*known, description, algorithm.name)) != *number) continue;
    return mpich_why_not(algorithm, op, many_hosts) ? "unknown" : fmt::format("requested:{}", algorithm.name);
  }
  return "unknown";
}

MpichRequest::MpichRequest(const Collective& collective, std::string_view algorithm) {
  const MpichCollective* known = mpich_collective(collective.id);
  if (known == nullptr) {
    throw Error(ExitCode::not_possible, why_no_algorithms(collective) + ": there is no algorithm to choose");
  }
  start_mpi_tool();
  algorithm_variable_ = mpich_algorithm_variable(*known);
  device_variable_ = mpich_device_variable(*known);
  if (!read_mpi_variable(algorithm_variable_)) {
    throw Error(ExitCode::not_possible,
                fmt::format("{} has no {}: it is not MPICH", mpi_library_version(), algorithm_variable_));
  }
  const MpichAlgorithm wanted = find_mpich_algorithm(*known, algorithm);
  const int number = mpich_algorithm_number(*known, mpi_variable_description(algorithm_variable_), wanted.name);
  if (number < 0) {
    throw Error(ExitCode::not_possible,
                fmt::format("{} has no {} algorithm {}", mpi_library_version(), lower_case(known->name), wanted.name));
  }
  number_ = std::to_string(number);
}

std::shared_ptr<void> MpichRequest::put_in_force() const {
  auto in_force = std::make_shared<MpiVariableChanges>();
  in_force->set(algorithm_variable_, number_);
  in_force->set(device_variable_, "0");
  return in_force;
}

}  // namespace busbar
