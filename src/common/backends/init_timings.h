#pragma once

#include "common/base/log_scan.h"
#include "common/base/packed_fields.h"

#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace busbar {

/// What NCCL logs about how one rank's communicator was created; to hundredths of a second. Lines are "Init timings -
/// ncclCommInitRank: rank 5 nranks 8 total 2.46 (kernels 0.12, ...)"; 2.22's, without names, too.
struct InitTimings {
  int rank = -1;
  int nranks = -1;
  double total = -1;  ///< [s], like all of them; -1: not reported
  double kernels = -1, alloc = -1, bootstrap = -1, allgathers = -1, topo = -1, graphs = -1, connections = -1, rest = -1;
};

/// The parts by NCCL's names, in its order.
inline constexpr std::array<std::pair<std::string_view, double InitTimings::*>, 8> kInitPhases{{
    {"kernels", &InitTimings::kernels},
    {"alloc", &InitTimings::alloc},
    {"bootstrap", &InitTimings::bootstrap},
    {"allgathers", &InitTimings::allgathers},
    {"topo", &InitTimings::topo},
    {"graphs", &InitTimings::graphs},
    {"connections", &InitTimings::connections},
    {"rest", &InitTimings::rest},
}};

BUSBAR_RECORD(InitTimings, rank, nranks, total, kernels, alloc, bootstrap, allgathers, topo, graphs, connections, rest);

/// Reads the text after "Init timings"; false if it is something else.
bool read_init_timings(LogScan scan, InitTimings& timings);

/// All such lines of a log, in order; a last line without its end is left out.
std::vector<InitTimings> find_init_timings(std::string_view log);

/// The slowest rank, the lowest of several; null for none.
const InitTimings* slowest_init(const std::vector<InitTimings>& ranks);

}  // namespace busbar
