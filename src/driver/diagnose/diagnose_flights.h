#pragma once

#include "common/watch/flight_state.h"
#include "common/watch/hang_evidence.h"

#include <string_view>
#include <vector>

namespace busbar {

/// The records of job `jobid`, or, where that is empty, of the job that was started last. Throws Error(bad_config) with
/// the choices where there is none.
std::vector<FlightState> flights_of_job(std::vector<FlightState> flights, std::string_view jobid);

/// What the records of one job say, with what this host knows of those of its own: its processes, its troubles and,
/// where they still run, what moves and NCCL's RAS service (3 s then).
HangEvidence evidence_of_flights(std::vector<FlightState> flights);

}  // namespace busbar
