#pragma once

#include "common/record/node_report.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// An error that NVIDIA's driver reported of a GPU.
struct XidEvent {
  std::string gpu;  ///< "GPU 2 0000:18:00.0"
  int xid = 0;
};

/// Hears the XIDs of this host's GPUs from its start on, as NVML's events: unlike the kernel's log they need no root.
/// One process per host listens. Never throws but for want of memory and threads; without a driver, or with one that
/// does not answer within `patience_s`, nothing is heard.
class XidListener {
 public:
  explicit XidListener(const std::string& library = "libnvidia-ml.so.1", double patience_s = 30);

  bool listens() const { return session_ != nullptr; }

  /// What came since the start or the last time; does not wait for more.
  std::vector<XidEvent> heard() const;

 private:
  struct Session;
  std::shared_ptr<Session> session_;
  double patience_s_;
};

/// A row "gpu.xid" per GPU and XID, judged as those of the kernel's log; the worst first. Pure.
std::vector<DoctorRow> xid_rows(std::span<const XidEvent> events);

}  // namespace busbar
