#pragma once

#include "common/machine/gpus.h"
#include "common/machine/probe.h"
#include "common/record/node_report.h"
#include "driver/rules/remedies.h"
#include "driver/rules/setting_rules.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbar {

using Rows = std::vector<DoctorRow>;

// Rows. ---------------------------------------------------------------------------------------------------------------

/// Why something is not as it should be, and what to do.
struct Remark {
  Outcome outcome = Outcome::pass;
  std::string reason = {};  ///< numbers that differ from node to node belong in the value, so that it is printed once
  std::string remedy = {};
};

/// The remark of configs/rules/remedies.yaml, with these facts in its placeholders.
template <class... Facts>
Remark remark(Outcome outcome, std::string_view name, const Facts&... facts) {
  const RemarkTexts& texts = remark_texts(name);
  return {outcome, fmt::format(fmt::runtime(texts.reason), facts...),
          fmt::format(fmt::runtime(texts.remedy), facts...)};
}

inline void mark_bad(DoctorRow& row, Remark found) {
  row.outcome = found.outcome;
  row.reason = std::move(found.reason);
  row.remedy = std::move(found.remedy);
}
template <class... Facts>
void mark_bad(DoctorRow& row, Outcome outcome, std::string_view name, const Facts&... facts) {
  mark_bad(row, remark(outcome, name, facts...));
}

/// Appends the rows of one check about one subject.
class CheckRows {
 public:
  CheckRows(Rows& rows, std::string check, std::string subject = "")
      : rows_(rows), check_(std::move(check)), subject_(std::move(subject)) {}

  /// A row that is OK, unless it is marked.
  DoctorRow& add(std::string value) const {
    return rows_.emplace_back(DoctorRow{.check = check_, .subject = subject_, .value = std::move(value)});
  }
  void ok(std::string value) const { add(std::move(value)); }
  void skip(std::string reason) const { mark_bad(add(""), {Outcome::skip, std::move(reason)}); }
  /// If it passes, the value alone.
  void judged(std::string value, Remark found) const {
    DoctorRow& row = add(std::move(value));
    if (found.outcome != Outcome::pass) mark_bad(row, std::move(found));
  }
  template <class... Facts>
  void bad(Outcome outcome, std::string value, std::string_view name, const Facts&... facts) const {
    judged(std::move(value), remark(outcome, name, facts...));
  }
  template <class... Facts>
  void warn(std::string value, std::string_view name, const Facts&... facts) const {
    bad(Outcome::warn, std::move(value), name, facts...);
  }
  void warn_unless(bool good, std::string value, std::string_view name) const {
    good ? ok(std::move(value)) : warn(std::move(value), name);
  }
  template <class... Facts>
  void fail(std::string value, std::string_view name, const Facts&... facts) const {
    bad(Outcome::fail, std::move(value), name, facts...);
  }
  /// A value that must be the same on all nodes; `remedy_name`: what to do if it is not.
  DoctorRow& agree(std::string value, Outcome if_differs, std::string_view remedy_name) const {
    DoctorRow& row = add(std::move(value));
    row.must_agree = true;
    row.if_differs = if_differs;
    row.remedy = remedy(remedy_name);
    return row;
  }

 private:
  Rows& rows_;
  std::string check_;
  std::string subject_;
};

// Checks: a function per kind of thing. Each appends its rows, OK ones too, and a SKIP with its reason if
// it cannot look. Pure in the probe: nothing is ever changed or deleted. ----------------------------------------------

// Of the node: one process per host runs them.
void check_versions(const Probe& probe, Rows& rows);    ///< kernel, OFED, firmware, driver, libnccl: must agree
void check_rdma(const Probe& probe, Rows& rows);        ///< InfiniBand, RoCE and EFA: state, rate, P_Keys, GIDs, MTU
void check_network(const Probe& probe, Rows& rows);     ///< Ethernet: speed, MTU, bonds; sockets, ports, RAS
void check_locality(const Probe& probe, Rows& rows);    ///< GPUs and NICs on the NUMA nodes and the PCI tree
void check_host(const Probe& probe, Rows& rows);        ///< limits, /dev/shm, memory, disks
void check_cpus(const Probe& probe, Rows& rows);        ///< model, governor, clock source, load; container, IOMMU, ACS
void check_plugins(const Probe& probe, Rows& rows);     ///< libnccl-net and its kin, GDR, gdrdrv, IMEX
void check_kernel_log(const Probe& probe, Rows& rows);  ///< XIDs by the table as data, AER, IOMMU, network devices

// Of the process: every rank runs them, because ranks of one host may differ.
void check_own_cpus(const Probe& probe, Rows& rows);     ///< where this process may run
void check_own_gpu(const Probe& probe, Rows& rows);      ///< the GPU that it takes; no row on a host without GPUs
void check_environment(const Probe& probe, Rows& rows);  ///< names, values, nccl.conf; forced slow paths

/// All of the node's.
Rows check_node(const Probe& probe);

/// All of the process's.
Rows check_process(const Probe& probe);

/// Ranks of one node that share a single CPU, from the rows of check_own_cpus; `parts`: one per rank.
void check_shared_cpus(const Probe& probe, const std::vector<NodeReport>& parts, Rows& rows);

/// Ranks of one node that take the same GPU, from the rows of check_own_gpu; `parts`: one per rank.
void check_shared_gpus(const Probe& probe, const std::vector<NodeReport>& parts, Rows& rows);

/// What CUDA shows a process of `ngpus` GPUs under a value of CUDA_VISIBLE_DEVICES: numbers as "2", and UUIDs as they
/// are; it stops at the first entry that is neither. Pure.
std::vector<std::string> visible_gpus(const std::string& value, std::size_t ngpus);

/// A row "gpu.xid" per GPU and XID, judged as those of the kernel's log; the worst first. Pure.
std::vector<DoctorRow> xid_rows(std::span<const XidEvent> events);

/// The node's GPUs through NVML; a SKIP if there is none. Not pure.
void check_gpus(Rows& rows);

// Counters. -----------------------------------------------------------------------------------------------------------

/// The largest increment that is allowed: as a number, or as a rate if chance is excluded.
struct CounterLimit {
  std::uint64_t above = std::numeric_limits<std::uint64_t>::max();
  double per_s = std::numeric_limits<double>::infinity();
};

/// An entry of configs/rules/error_counters.yaml.
struct CounterRule {
  std::string what, remedy;
  CounterLimit fail, warn;
};

/// All of them, by family and counter ("ib/symbol_error").
const std::map<std::string, CounterRule>& counter_rules();

/// `increment` in `seconds`; rates are not judged if `seconds` is not positive. Pure.
Remark judge_increment(const CounterRule& rule, std::uint64_t increment, double seconds);

/// The probability of `count` or more events if `mean` are expected (Poisson). Pure.
double chance_of_at_least(std::uint64_t count, double mean);

/// What counters moved between two readings `seconds` apart, judged by their rules; a counter that fell was reset and
/// counts from 0. Pure.
std::vector<DoctorRow> moved_counters(const std::vector<CounterReading>& before,
                                      const std::vector<CounterReading>& after, double seconds);

// Parts that several checks share. ------------------------------------------------------------------------------------

/// Folders in which the dynamic loader of this process looks, in its order: LD_LIBRARY_PATH, what /etc/ld.so.conf and
/// the files that it includes name, the system's own. Not the loader's cache, which is not text: a folder that was
/// named after the last ldconfig counts too. Pure in the probe.
std::vector<std::string> library_folders(const Probe& probe);

/// The first file of that name there, or the name itself if it is a path to one; empty if there is none.
std::string find_library(const Probe& probe, const std::vector<std::string>& folders, const std::string& name);

/// Judges a host's GPUs: rows "gpu...." Thresholds are those that NVIDIA, Azure, OCI and Imbue
/// publish for their health checks, named where they are. Pure.
void judge_gpus(const HostGpus& host, Rows& rows);

/// How many NVLinks a model of this name has if it sits on NVSwitch, and their speed in MB/s one way; 0: not known.
struct NvLinkModel {
  unsigned links = 0;
  unsigned speed_mbps = 0;
};
NvLinkModel nvlink_model(const std::string& model);

// NCCL's settings in the environment and in its files. ----------------------------------------------------------------

/// A line of a file of NCCL's settings.
struct ConfLine {
  int line = 0;  ///< from 1
  std::string name;
  std::string value;
};

/// What NCCL takes from such a file: NAME=VALUE up to the end of the line, nothing trimmed, '#' only in the first
/// column; other lines are skipped (NCCL, src/misc/param.cc). Pure.
std::vector<ConfLine> parse_nccl_conf(std::string_view text);

/// One variable as NCCL sees it.
struct NcclSetting {
  std::string value;
  std::string origin;  ///< the file that set it; empty: the environment
};

/// One of the files, if it exists.
struct ConfFile {
  std::string path;
  std::vector<ConfLine> lines;
};

/// The files in the order in which NCCL reads them: NCCL_CONF_FILE or else ~/.nccl.conf, then /etc/nccl.conf.
std::vector<ConfFile> nccl_conf_files(const Probe& probe);

/// All NCCL_* of the environment and of the files; what is set first stays.
std::map<std::string, NcclSetting> nccl_settings(const Probe& probe, const std::vector<ConfFile>& files);

// Remarks on a setting. ----------------------------------------------------------------------------------------------

/// The remark on a set variable whose name begins with NCCL_: a slip, PyTorch's, removed, deprecated, internal.
/// `version` is that of the NCCL in use, 0 if it is not known. Pure.
Remark judge_nccl_name(std::string_view name, int version);

/// How many processes the job has, as its launcher sets in the environment; nothing: not set.
struct JobShape {
  std::optional<int> on_host;
  std::optional<int> in_all;
  bool one_per_host() const { return on_host == 1; }
  bool one_host() const { return on_host && in_all && *on_host == *in_all; }
};
JobShape job_shape(const std::map<std::string, std::string>& environment);

/// Why the value of an NCCL_* variable is wrong or risky: ranges of the fields that it goes to, lists of words with the
/// nearest one, numbers that NCCL does not read as they are meant. `version` as for judge_nccl_name. Pure.
Remark judge_nccl_value(std::string_view name, std::string_view value, int version, const JobShape& job);

/// What a value takes away from NCCL's speed or safety; passes if it is nothing. CUDA's variables too. Pure.
Remark judge_slow_setting(std::string_view name, std::string_view value);

/// Of `names`, those that a list of NCCL's takes (list_takes). Pure.
std::vector<std::string> taken_by_list(std::string_view list, const std::vector<std::string>& names);

}  // namespace busbar
