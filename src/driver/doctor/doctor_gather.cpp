
#include "common/base/packed_fields.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/machine/error_counters.h"
#include "common/processes/comm.h"
#include "common/processes/session.h"
#include "common/processes/topology.h"
#include "common/record/accept_fields.h"
#include "driver/doctor/checks.h"
#include "driver/doctor/join_nodes.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

namespace busbar {

Rows check_node(const Probe& probe) {
  Rows rows;
  check_versions(probe, rows);
  check_rdma(probe, rows);
  check_network(probe, rows);
  check_locality(probe, rows);
  check_host(probe, rows);
  check_cpus(probe, rows);
  check_plugins(probe, rows);
  check_kernel_log(probe, rows);
  return rows;
}

Rows check_process(const Probe& probe) {
  Rows rows;
  check_own_cpus(probe, rows);
  check_own_gpu(probe, rows);
  check_environment(probe, rows);
  return rows;
}

namespace {

/// What each process says of itself.
NodeReport look_at_process(const Probe& probe) {
  NodeReport part;
  part.host = probe.host;
  part.time = local_timestamp();
  part.time_s = probe.now_s;
  part.rows = check_process(probe);
  return part;
}

double wall_clock_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// How far this process's clock is from process 0's, at most [s]: that includes a barrier, so the least of a few.
double clock_offset_s(const Comm& world) {
  constexpr int kTries = 5;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTries; ++i) {
    world.barrier();
    const double now_s = wall_clock_s();
    double first_s = now_s;
    world.broadcast(&first_s, sizeof first_s, 0);
    const double offset_s = now_s - first_s;
    if (std::abs(offset_s) < std::abs(least)) least = offset_s;
  }
  return least;
}

void check_clock(double offset_s, const CheckRows& check) {
  // Kernel logs, job logs and hang reports of several nodes are put in order by their times.
  constexpr double kMost = 0.1;
  if (std::abs(offset_s) <= kMost) return check.ok("within 0.1 s of the first rank's clock");
  check.warn(fmt::format("{:+.3f} s from the first rank's clock", offset_s), "clocks-differ");
}

/// What hwloc sees, which reads more than sysfs (the firmware's distances, saved topologies): only with MPI, which
/// brings it. Nothing if no GPU and no card are visible.
void add_hwloc_row(Rows& rows) {
  const CheckRows check(rows, "locality.hwloc");
  try {
    std::vector<std::string> lines = topology_lines();
    lines.erase(lines.begin());  // where this process is: every rank has a row for that
    std::erase_if(lines, [](const std::string& line) { return !line.starts_with("GPU") && !line.starts_with("NIC"); });
    if (lines.empty()) return;
    check.agree(joined_words(lines, "; "), Outcome::warn, "same-cards");
  } catch (const std::exception& e) {
    check.skip(fmt::format("hwloc: {}", e.what()));
  }
}

}  // namespace

NodeReport look_at_node(const Probe& probe) {
  NodeReport node = look_at_process(probe);
  Rows rows = check_node(probe);
  node.rows.insert(node.rows.begin(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
  node.counters = read_counters(probe);
  return node;
}

NodeReport look_at_this_node() {
  NodeReport node = look_at_node(probe_this_machine());
  check_gpus(node.rows);
  for (CounterReading& one : read_gpu_counters()) node.counters.push_back(std::move(one));
  return node;
}

std::vector<NodeReport> gather_doctor(const Comm& world) {
  const Comm host = world.split_by_host();
  const double offset_s = clock_offset_s(world);
  Probe probe;
  const std::string part = collectively_get(world, "looking at this process", [&] {
    probe = probe_this_machine();
    NodeReport own = look_at_process(probe);
    own.ranks = {world.rank()};
    return pack_fields(own);
  });
  const std::vector<std::string> parts = host.gather(part);
  const std::string whole = collectively_get(world, "looking at this node", [&]() -> std::string {
    if (host.rank() != 0) return {};
    std::vector<NodeReport> read;
    for (const std::string& text : parts) read.push_back(unpack_fields<NodeReport>(text));
    NodeReport node = merge_ranks(read);
    Rows rows = check_node(probe);
    add_hwloc_row(rows);
    check_gpus(rows);
    check_clock(offset_s, {rows, "host.clock_offset"});
    check_shared_cpus(probe, read, rows);
    check_shared_gpus(probe, read, rows);
    node.counters = read_all_counters();
    node.rows.insert(node.rows.begin(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
    return pack_fields(node);
  });
  const std::vector<std::string> gathered = world.gather(whole);
  std::vector<NodeReport> nodes;
  on_process0(world, [&] {
    for (const std::string& text : gathered) {
      if (!text.empty()) nodes.push_back(unpack_fields<NodeReport>(text));
    }
  });
  return nodes;
}

SearchCounters::SearchCounters(const Comm& world)
    : world_(world), reads_(world.split_by_host().rank() == 0), begin_(std::chrono::steady_clock::now()) {
  collectively(world_, "listening to the GPUs' errors", [&] {
    if (reads_) xids_.emplace();
  });
  before_ = read();
}

std::vector<CounterReading> SearchCounters::read() const {
  return collectively_get(world_, "reading the error counters",
                          [&] { return reads_ ? read_all_counters() : std::vector<CounterReading>(); });
}

std::vector<DoctorRow> SearchCounters::moved() const {
  const std::vector<CounterReading> after = read();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin_;
  Rows found =
      collectively_get(world_, "reading the GPUs' errors", [&] { return xids_ ? xid_rows(xids_->heard()) : Rows(); });
  for (DoctorRow& row : moved_counters(before_, after, spent.count())) found.push_back(std::move(row));
  std::erase_if(found, [](const DoctorRow& row) { return row.outcome < Outcome::warn; });
  for (DoctorRow& row : found) row.subject = fmt::format("{} {}", hostname(), row.subject);
  return gather_records(world_, std::move(found));
}

}  // namespace busbar
