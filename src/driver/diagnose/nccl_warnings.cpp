#include "driver/diagnose/nccl_warnings.h"

#include "common/base/text.h"
#include "driver/diagnose/log_scan.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <tuple>
#include <utility>

namespace busbar {
namespace {

using enum WarningKind;

constexpr std::string_view kShm =
    "df -h /dev/shm on that host; enlarge it (docker --shm-size, the pod's /dev/shm) or remove stale /dev/shm/nccl-*";
constexpr std::string_view kPort = "ibstat and the error counters of that port; its cable, switch port and the peer's";
constexpr std::string_view kPath =
    "ibstat and the error counters of that port; its cable, switch port and the peer's; over RoCE NCCL_IB_GID_INDEX, "
    "MTU and PFC";
constexpr std::string_view kRegistered =
    "the job with NCCL_NET_GDR_LEVEL=LOC: if it runs then, GPU Direct on that host (nvidia_peermem or DMA-BUF, IOMMU, "
    "ACS); else dmesg | grep -i xid";
constexpr std::string_view kGpu = "dmesg | grep -i xid; nvidia-smi -q -d ECC,PAGE_RETIREMENT; nvidia-smi nvlink -e";
constexpr std::string_view kRoute =
    "ping and nc between the hosts on NCCL_SOCKET_IFNAME's interface; firewalls; routes";
constexpr std::string_view kBroken =
    "dmesg | grep -i xid on that host, the program's own first CUDA error; CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer "
    "names the kernel";
constexpr std::string_view kCauseFirst =
    "the first error by time in the logs and dmesg of the process that failed first";

// Texts are those of NCCL 2.3 to 2.30 and its plugins. Special ones first.
constexpr auto kRules = std::to_array<WarningRule>({
    {harmless, "ras/", "call to bind failed", "another job owns the RAS port", ""},
    {harmless, "iommu", "", "", ""},
    {harmless, "numa auto balancing", "", "", ""},
    {harmless, "could not enable p2p", "", "", ""},
    {call_mismatch, "mismatched collective", "", "NCCL found that ranks called different collectives",
     "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL on all ranks"},
    {size_mismatch, "collective mismatch error", "", "the network transport received another size than it expected",
     "compare NCCL_ALGO, NCCL_PROTO, NCCL_BUFFSIZE and versions of the hosts; NCCL_DEBUG_SUBSYS=COLL for the calls"},
    {size_mismatch, "message truncated", "", "the network transport received another size than it expected",
     "compare NCCL_ALGO, NCCL_PROTO, NCCL_BUFFSIZE and versions of the hosts; NCCL_DEBUG_SUBSYS=COLL for the calls"},
    // A flushed work request follows from an error before it.
    {victim, "completion", "error 5,", "a queue was flushed after an earlier error", kCauseFirst},
    {victim, "completion", "status=5 ", "a queue was flushed after an earlier error", kCauseFirst},
    {victim, "wr_flush_err", "", "a queue was flushed after an earlier error", kCauseFirst},
    {hardware, "completion", "error 12",
     "InfiniBand completion error 12: the peer did not acknowledge after all retries", kPath},
    {hardware, "completion", "status=12",
     "InfiniBand completion error 12: the peer did not acknowledge after all retries", kPath},
    {hardware, "retry_exc_err", "", "InfiniBand completion error 12: the peer did not acknowledge after all retries",
     kPath},
    {hardware, "completion", "error 4,", "InfiniBand completion error 4: local protection error", kRegistered},
    {hardware, "completion", "status=4 ", "InfiniBand completion error 4: local protection error", kRegistered},
    {hardware, "loc_prot_err", "", "InfiniBand completion error 4: local protection error", kRegistered},
    {hardware, "got completion", "", "InfiniBand completion error", kPort},
    {hardware, "got cqe with error", "", "InfiniBand completion error", kPort},
    {hardware, "async fatal event", "", "fatal event of an InfiniBand device", kPort},
    {hardware, "async event", "port error", "an InfiniBand port went down", kPort},
    {hardware, "async", "error event", "error event of an InfiniBand device", kPort},
    {hardware, "uncorrectable", "", "uncorrectable error of a GPU or link", kGpu},
    {hardware, "nvlink", "error", "NVLink error", kGpu},
    {hardware, " ecc ", "error", "memory error of a GPU", kGpu},
    {hardware, "hardware stack error", "", "hardware error of a GPU", kGpu},
    {hardware, "gpu is lost", "", "a GPU fell off the bus", kGpu},
    {hardware, "fallen off the bus", "", "a GPU fell off the bus", kGpu},
    {resource, "/dev/shm", "", "/dev/shm is full or too small", kShm},
    {resource, "posix_fallocate", "", "/dev/shm is full or too small", kShm},
    {resource, "shared memory segment", "", "/dev/shm is full or too small", kShm},
    {resource, "no space left on device", "", "/dev/shm or a disk is full", kShm},
    {resource, "ibv_reg_mr", "cannot allocate memory", "memory cannot be registered: locked memory is limited",
     "ulimit -l in the job must be unlimited (LimitMEMLOCK of the launcher's daemon)"},
    {resource, "ibv_create", "cannot allocate memory", "queues cannot be created: locked memory is limited",
     "ulimit -l in the job must be unlimited (LimitMEMLOCK of the launcher's daemon)"},
    {resource, "too many open files", "", "file descriptors are used up", "ulimit -n in the job"},
    {resource, "cannot allocate memory", "", "memory is used up", "free -h and ulimit -l on that host, in the job"},
    {resource, "out of memory", "", "memory of the GPU or host is used up", "nvidia-smi and free -h on that host"},
    {resource, "pthread_create", "", "no thread can be created", "ulimit -u and the pids limit of the cgroup"},
    {resource, "resource temporarily unavailable", "", "a limit of processes or threads is reached",
     "ulimit -u and the pids limit of the cgroup"},
    {unreachable, "no route to host", "", "a host cannot be reached", kRoute},
    {unreachable, "network is unreachable", "", "a network cannot be reached", kRoute},
    {unreachable, "connection refused", "", "a host refuses connections", kRoute},
    {unreachable, "connection timed out", "", "a host does not answer", kRoute},
    {unreachable, "connect", "software caused connection abort", "a host does not answer", kRoute},
    {unreachable, "exceeded error retry count", "", "a host does not answer", kRoute},
    {config, "libibverbs", "", "libibverbs is missing: InfiniBand and RoCE cannot be used",
     "install libibverbs (rdma-core) in the image"},
    {config, "failed to initialize any net plugin", "", "no network plugin could be initialised",
     "NCCL_DEBUG_SUBSYS=INIT,NET; NCCL_NET, NCCL_NET_PLUGIN and NCCL_SOCKET_IFNAME"},
    {config, "fi_getinfo", "", "libfabric found no provider: this host has another network than it should",
     "fi_info -p efa on that host; the plugin and the devices in its container"},
    {config, "net/ofi", "", "the OFI plugin could not be set up", "fi_info on that host"},
    {config, "duplicate gpu", "", "two ranks use the same GPU", "CUDA_VISIBLE_DEVICES and the ranks' device numbers"},
    {config, "no socket interface found", "", "NCCL_SOCKET_IFNAME names no interface of that host",
     "ip -br addr; NCCL_SOCKET_IFNAME"},
    {config, "no interface found", "", "NCCL_SOCKET_IFNAME names no interface of that host",
     "ip -br addr; NCCL_SOCKET_IFNAME"},
    {config, "mixed local net device counts", "", "hosts have different numbers of network devices",
     "NCCL_DEBUG_SUBSYS=NET on all; NCCL_IB_HCA; find the missing device instead of setting NCCL_IGNORE_NET_MISMATCH"},
    {config, "mismatched nccl version", "", "ranks have different versions of NCCL", "ldd, pip list on all hosts"},
    {config, "version mismatch", "", "versions differ", "the versions of NCCL, driver and plugins on all hosts"},
    {config, "driver version is insufficient", "", "the GPU driver is too old", "nvidia-smi on that host"},
    {config, "system not yet initialized", "", "the fabric manager does not run",
     "systemctl status nvidia-fabricmanager"},
    {config, "imex", "", "MNNVL is there but IMEX does not work", "nvidia-imex-ctl -N; NCCL_MNNVL_ENABLE=0 to go on"},
    {config, "invalid device ordinal", "", "a GPU number that does not exist", "CUDA_VISIBLE_DEVICES"},
    {config, "no kernel image", "", "NCCL was not built for this GPU", "a build of NCCL for this GPU"},
    {config, "cannot assign requested address", "", "an address of another interface is used", "NCCL_SOCKET_IFNAME"},
    {config, "nccl_", "invalid", "a setting's value is invalid", "the setting's value"},
    {config, "nccl_", "unknown", "a setting's value is unknown", "the setting's value"},
    {config, "nccl_", "out of range", "a setting's value is out of range", "the setting's value"},
    {fallout, "unspecified launch failure", "", "the GPU context was already broken by an earlier kernel", kBroken},
    {fallout, "illegal memory access", "", "a kernel accessed memory that it must not",
     "compute-sanitizer; dmesg | grep -i xid"},
    {fallout, "misaligned address", "", "a kernel accessed misaligned memory", "compute-sanitizer"},
    {fallout, "device-side assert", "", "an assertion failed in a kernel", "CUDA_LAUNCH_BLOCKING=1"},
    {fallout, "commdestroysync", "", "destroyed after an earlier error", kBroken},
    {victim, "closed by remote peer", "", "a peer went away", kCauseFirst},
    {victim, "connection reset by peer", "", "a peer went away", kCauseFirst},
    {victim, "broken pipe", "", "a peer went away", kCauseFirst},
    {victim, "software caused connection abort", "", "a peer went away", kCauseFirst},
    {victim, "proxy call to rank", "", "a peer went away", kCauseFirst},
    {victim, "failed to execute operation", "", "a peer went away", kCauseFirst},
    {victim, "socket recv failed", "", "a peer went away", kCauseFirst},
    {victim, "remote process exited", "", "a peer went away", kCauseFirst},
});

constexpr WarningRule kOtherWarning{};

}  // namespace

const WarningRule& classify_warning(std::string_view file, std::string_view text) {
  const std::string low = lower_case(file.substr(0, 200)) + ' ' + lower_case(text.substr(0, 2000));
  for (const WarningRule& rule : kRules) {
    if (low.find(rule.first) != std::string::npos && low.find(rule.second) != std::string::npos) return rule;
  }
  return kOtherWarning;
}

std::string warning_shape(std::string_view text) {
  std::string shape;
  const auto word_char = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t i = 0; i < text.size() && shape.size() < 200;) {
    if (!word_char(text[i])) {
      shape += text[i++];
      continue;
    }
    std::size_t end = i;
    bool digit = false;
    for (; end < text.size() && word_char(text[end]); ++end) {
      digit = digit || std::isdigit(static_cast<unsigned char>(text[end])) != 0;
    }
    const std::string_view word = text.substr(i, end - i);
    if (digit || (!shape.empty() && shape.ends_with("nccl-"))) {
      if (!shape.ends_with("N.")) shape += 'N';
    } else {
      shape += word;
    }
    i = end;
  }
  while (!shape.empty() && shape.back() == ' ') shape.pop_back();
  return shape;
}

namespace {

void note_actor(WarningRecord& record, std::uint32_t actor) {
  const auto place = std::lower_bound(record.actors.begin(), record.actors.end(), actor);
  if (place != record.actors.end() && *place == actor) return;
  if (record.actors.size() < WarningBook::kActors) {
    record.actors.insert(place, actor);
  } else {
    ++record.actors_more;
  }
}

}  // namespace

const WarningRule& WarningBook::add(const Warning& warning, std::string_view timestamp, std::uint32_t actor,
                                    std::size_t file, std::uint64_t line) {
  const WarningRule& rule = classify_warning(warning.file, warning.text);
  std::string shape = warning_shape(warning.text);
  auto record = std::ranges::find_if(records_, [&](const auto& one) { return one.shape == shape; });
  if (record == records_.end()) {
    if (records_.size() == kRecords) {
      ++not_kept_;
      return rule;
    }
    std::string where(warning.file.substr(0, 200));
    if (!warning.function.empty()) where += " (" + std::string(warning.function.substr(0, 100)) + ")";
    records_.push_back({.rule = &rule,
                        .shape = std::move(shape),
                        .example = std::string(warning.text.substr(0, 500)),
                        .where = std::move(where),
                        .timestamp = std::string(timestamp.substr(0, 64)),
                        .actor = actor,
                        .actors = {},
                        .file = file,
                        .line = line});
    record = records_.end() - 1;
  }
  ++record->times;
  note_actor(*record, actor);
  if (!timestamp.empty() && timestamp < record->timestamp) {
    record->timestamp = timestamp.substr(0, 64);
    record->example = warning.text.substr(0, 500);
    record->actor = actor;
  }
  return rule;
}

void WarningBook::merge(WarningBook&& other, const std::vector<std::uint32_t>& actors) {
  not_kept_ += other.not_kept_;
  for (WarningRecord& later : other.records_) {
    for (std::uint32_t& actor : later.actors) actor = actors[actor];
    later.actor = actors[later.actor];
    std::ranges::sort(later.actors);
    auto record = std::ranges::find_if(records_, [&](const auto& one) { return one.shape == later.shape; });
    if (record == records_.end()) {
      if (records_.size() == kRecords) {
        not_kept_ += later.times;
      } else {
        records_.push_back(std::move(later));
      }
      continue;
    }
    if (!later.timestamp.empty() && later.timestamp < record->timestamp) {
      record->timestamp = later.timestamp;
      record->example = later.example;
      record->actor = later.actor;
    }
    record->times += later.times;
    record->actors_more += later.actors_more;
    for (const std::uint32_t actor : later.actors) note_actor(*record, actor);
  }
}

std::vector<const WarningRecord*> causes_first(const WarningBook& book) {
  std::vector<const WarningRecord*> order;
  for (const WarningRecord& record : book.records()) order.push_back(&record);
  std::ranges::stable_sort(order, [](const WarningRecord* a, const WarningRecord* b) {
    return std::tuple(a->rule->kind, a->timestamp.empty(), std::string_view(a->timestamp)) <
           std::tuple(b->rule->kind, b->timestamp.empty(), std::string_view(b->timestamp));
  });
  return order;
}

}  // namespace busbar
