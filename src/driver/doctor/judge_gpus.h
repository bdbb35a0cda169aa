#pragma once

#include "common/machine/gpus.h"
#include "driver/doctor/checks.h"

#include <string>

namespace busbar {

/// All that is to be said of a host's GPUs: rows "gpu...." Thresholds are those that NVIDIA, Azure, OCI and Imbue
/// publish for their health checks, named where they are. Pure.
void judge_gpus(const HostGpus& host, Rows& rows);

/// Its part about what joins GPUs: NVLink, fabric, P2P, PCIe.
void judge_gpu_links(const HostGpus& host, const GpuFacts& gpu, Rows& rows);

/// How many NVLinks a model of this name has where it sits on NVSwitch, and their speed in MB/s one way; 0: not known.
struct NvLinkModel {
  unsigned links = 0;
  unsigned speed_mbps = 0;
};
NvLinkModel nvlink_model(const std::string& model);

}  // namespace busbar
