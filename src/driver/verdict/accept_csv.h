#pragma once

#include "common/record/accept_result.h"

#include <string>

namespace busbar {

/// The first line of accept_csv().
std::string accept_csv_header();

/// Cells and criteria as one table (RFC 4180, lines end with \n as the benchmarks' do): column `record` says which a
/// line is, what does not concern it is empty. Bandwidths are in 1e9 B/s.
std::string accept_csv(const AcceptResult& result);

}  // namespace busbar
