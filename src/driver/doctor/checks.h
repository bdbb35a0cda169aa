#pragma once

#include "common/machine/probe.h"
#include "common/record/node_report.h"

#include <vector>

namespace busbar {

// One function per kind of thing to look at; each appends its rows, OK ones too, and a SKIP with its reason where it
// cannot look. Pure in the probe: nothing is ever changed or deleted.

using Rows = std::vector<DoctorRow>;

// Of the node: one process per host asks.
void check_host(const Probe& probe, Rows& rows);        ///< limits, memory, /dev/shm, CPUs, clock, load
void check_kernel_log(const Probe& probe, Rows& rows);  ///< XIDs by the table as data, AER, IOMMU, network devices
void check_network(const Probe& probe, Rows& rows);     ///< Ethernet, InfiniBand, RoCE, EFA through sysfs
void check_locality(const Probe& probe, Rows& rows);    ///< GPUs and NICs on the NUMA nodes and the PCI tree
void check_versions(const Probe& probe, Rows& rows);    ///< kernel, OFED, firmware, driver, libnccl: must agree
void check_plugins(const Probe& probe, Rows& rows);     ///< libnccl-net and its kin, GDR, gdrdrv, IMEX

// Of the process: every rank asks, because ranks of one host may differ.
void check_environment(const Probe& probe, Rows& rows);  ///< names, values, nccl.conf; forced slow paths
void check_own_cpus(const Probe& probe, Rows& rows);     ///< where this process may run

/// All of the node's.
Rows check_node(const Probe& probe);

/// All of the process's.
Rows check_process(const Probe& probe);

/// The node's GPUs through NVML; a SKIP where there is none. Not pure.
void check_gpus(Rows& rows);

/// Every counter that moved_counters judges, as it stands now.
std::vector<CounterReading> read_counters(const Probe& probe);
std::vector<CounterReading> read_gpu_counters();

/// Both of this node: one process per host asks.
std::vector<CounterReading> read_all_counters();

}  // namespace busbar
