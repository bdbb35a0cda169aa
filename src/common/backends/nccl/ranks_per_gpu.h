#pragma once

#include <span>
#include <string>
#include <vector>

namespace busbar {

/// One environment variable that a run with --ranks-per-gpu needs.
struct ProcessSetting {
  std::string name;
  std::string value;
  bool overwrite = false;  ///< false: the user's own value wins

  bool operator==(const ProcessSetting&) const = default;
};

/// What makes NCCL 2.28 accept several ranks on one GPU: every process claims to be a host of its own, so that no two
/// ranks share a GPU of the same host and only the socket transport remains. `rank` is unique over the whole job,
/// `ras_port` the job's own, `one_host` says that loopback reaches every rank. Takes one rank per process
/// (option_checks.cpp): NCCL keeps one host id per process.
std::vector<ProcessSetting> shared_gpu_environment(int rank, int ras_port, bool one_host);

/// Sets them in this process. Before NCCL's first call: it reads each of them once.
void apply(std::span<const ProcessSetting> settings);

/// The header line that says what such timings are worth; empty with one rank per GPU.
std::string ranks_per_gpu_remark(int ranks_per_gpu);

/// A TCP port that is free on this host now; 0 if none can be had.
int free_port();

}  // namespace busbar
