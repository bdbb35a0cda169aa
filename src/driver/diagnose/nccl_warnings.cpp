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

constexpr std::string_view kVerbs =
    "ibv_devinfo and show_gids on that host: state and addresses of the devices in NCCL_IB_HCA; NCCL_IB_GID_INDEX";
constexpr std::string_view kVersions =
    "the versions of NCCL, driver and plugins on all hosts (NCCL_DEBUG=VERSION; ldd of the program; pip list)";
constexpr std::string_view kMemlock =
    "ulimit -l in the job must be unlimited (LimitMEMLOCK of the launcher's daemon, docker --ulimit memlock=-1)";
constexpr std::string_view kRefused =
    "whether the process at that address still runs, and what it said last: a refusal comes from a host that lives; "
    "if it runs, a firewall that rejects (nc -vz ADDRESS PORT)";
constexpr std::string_view kInterface =
    "ip -br addr on all hosts; NCCL_SOCKET_IFNAME=^lo,docker,veth or the interface that all hosts share";
constexpr std::string_view kRetry = "InfiniBand completion error 12: the peer did not acknowledge after all retries";
constexpr std::string_view kFlush = "a queue was flushed after an earlier error";
constexpr std::string_view kDevShm = "/dev/shm is full or too small";
constexpr std::string_view kOtherSize = "the network transport received another size than it expected";
constexpr std::string_view kSizes =
    "compare NCCL_ALGO, NCCL_PROTO, NCCL_BUFFSIZE and versions of the hosts; NCCL_DEBUG_SUBSYS=COLL for the calls";
constexpr std::string_view kEcc = "uncorrectable memory error of a GPU (ECC)";
constexpr std::string_view kGone = "a peer went away";

// Texts are those of NCCL 2.3 to 2.30, RCCL, their plugins, CUDA, PyTorch and Gloo. Special ones first.
constexpr auto kRules = std::to_array<WarningRule>({
    {harmless, "ras/", "call to bind failed", "another job owns the RAS port", ""},
    {harmless, "iommu", "", "", ""},
    {harmless, "numa auto balancing", "", "", ""},
    {harmless, "could not enable p2p", "", "", ""},
    {harmless, "lib wrapper not initialized", "", "no libibverbs here: nothing but InfiniBand needs it", ""},
    {call_mismatch, "mismatched collective", "", "NCCL found that ranks called different collectives",
     "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL on all ranks"},
    {size_mismatch, "collective mismatch error", "", kOtherSize, kSizes},
    {size_mismatch, "message truncated", "", kOtherSize, kSizes},
    // Records of the bootstrap that do not fit: the sender's has another layout, or is not NCCL's.
    {config, "bootstrap root", "mismatch in info from procs",
     "processes sent the bootstrap root records that do not fit: their versions of NCCL differ", kVersions},
    {config, "mismatch in rank count", "", "ranks disagree on how many ranks there are",
     "WORLD_SIZE, nranks and the process groups of all ranks; left-over processes of another run"},
    {config, "wrong type",
     "!=", "a peer speaks another protocol: ranks of one job chose different networks, or another program connected",
     "\"Using network\" in the logs of all hosts; NCCL_NET, NCCL_IB_DISABLE and the plugin must be the same"},
    {config, "wrong magic", "", "a process of another job, or a port scanner, connected",
     "left-over processes of earlier jobs on those hosts (ps); MASTER_PORT and NCCL_COMM_ID of jobs that share hosts"},
    {config, "mismatched nccl version", "", "ranks have different versions of NCCL", kVersions},
    {config, "driver/library version mismatch", "", "the GPU driver was changed under the running kernel module",
     "reboot that host, or reload its driver"},
    {config, "version mismatch", "", "versions differ", kVersions},
    {config, "does not support the kernel abi", "",
     "the RDMA library in the container does not fit the driver of the kernel: its devices are not used",
     "install the vendor's rdma-core provider that fits the host's driver; ibv_devinfo in the container"},
    // A flushed work request follows from an error before it.
    {victim, "completion", "error 5,", kFlush, kCauseFirst},
    {victim, "completion", "status=5 ", kFlush, kCauseFirst},
    {victim, "completion", "status=5,", kFlush, kCauseFirst},
    {victim, "wr_flush_err", "", kFlush, kCauseFirst},
    {hardware, "completion", "error 12", kRetry, kPath},
    {hardware, "completion", "status=12", kRetry, kPath},
    {hardware, "retry_exc_err", "", kRetry, kPath},
    {hardware, "completion", "error 13", "InfiniBand completion error 13: the peer was not ready after all retries",
     kPath},
    {hardware, "completion", "status=13", "InfiniBand completion error 13: the peer was not ready after all retries",
     kPath},
    {hardware, "completion", "error 4,", "InfiniBand completion error 4: local protection error", kRegistered},
    {hardware, "completion", "status=4 ", "InfiniBand completion error 4: local protection error", kRegistered},
    {hardware, "loc_prot_err", "", "InfiniBand completion error 4: local protection error", kRegistered},
    {hardware, "got completion", "", "InfiniBand completion error", kPort},
    {hardware, "got cqe with error", "", "InfiniBand completion error", kPort},
    {hardware, "async fatal event", "", "fatal event of an InfiniBand device", kPort},
    {hardware, "async event", "port error", "an InfiniBand port went down", kPort},
    {hardware, "async", "error event", "error event of an InfiniBand device", kPort},
    {hardware, "async event", "port_err", "an InfiniBand port went down", kPort},
    {hardware, "uncorrectable", "nvlink", "uncorrectable error of NVLink", kGpu},
    {hardware, "uncorrectable", "", kEcc, kGpu},
    {hardware, "nvlink", "error", "NVLink error", kGpu},
    {hardware, " ecc ", "error", "memory error of a GPU", kGpu},
    {hardware, "hardware stack error", "", "hardware error of a GPU", kGpu},
    {hardware, "remapping failure occurred", "yes", "memory of a GPU is defective and can no longer be remapped", kGpu},
    {hardware, "gpu", "pending : yes", "a GPU has to be reset: it found defective memory", kGpu},
    {hardware, "gpu", "slowdown : active", "a GPU is slowed down by heat or by its power supply",
     "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER on that host: fans, air flow, power supply"},
    {hardware, "gpu is lost", "", "a GPU fell off the bus", kGpu},
    {hardware, "fallen off the bus", "", "a GPU fell off the bus", kGpu},
    {hardware, "gpu requires reset", "", "a GPU must be reset", kGpu},
    {hardware, "unable to determine the device handle", "", "a GPU does not answer its driver", kGpu},
    {resource, "/dev/shm", "", kDevShm, kShm},
    {resource, "posix_fallocate", "", kDevShm, kShm},
    {resource, "shared memory segment", "", kDevShm, kShm},
    {resource, "insufficient shared memory", "", kDevShm, kShm},
    {resource, "out of shared memory", "", kDevShm, kShm},
    {resource, "no space left on device", "", "/dev/shm or a disk is full", kShm},
    {resource, "ibv_reg_", "cannot allocate memory", "memory cannot be registered: locked memory is limited", kMemlock},
    {resource, "ibv_create", "cannot allocate memory", "queues cannot be created: locked memory is limited", kMemlock},
    {resource, "register", "cannot allocate memory", "memory cannot be registered: locked memory is limited", kMemlock},
    {resource, "register", "rc: -12", "memory cannot be registered: locked memory is limited", kMemlock},
    {resource, "fi_mr_reg", "-12", "memory cannot be registered: locked memory is limited", kMemlock},
    {resource, "memlock", "", "locked memory is limited", kMemlock},
    {resource, "too many open files", "", "file descriptors are used up",
     "ulimit -n in the job on all hosts: raise it to 65536 or more (a mesh of N ranks needs N per process)"},
    {resource, "cannot allocate memory", "", "memory is used up", "free -h and ulimit -l on that host, in the job"},
    {resource, "out of memory", "", "memory of the GPU or host is used up",
     "nvidia-smi on that host: what else holds memory there; smaller batches; PYTORCH_CUDA_ALLOC_CONF"},
    {resource, "outofmemory", "", "memory of the GPU or host is used up",
     "nvidia-smi and free -h on that host: what else holds memory there; smaller batches"},
    {resource, "failed to cuda calloc", "", "memory of the GPU is used up",
     "nvidia-smi on that host: what holds memory"},
    {resource, "running low on memory", "", "memory of the host is used up", "free -h on that host; the job's limit"},
    {resource, "pthread_create", "", "no thread can be created", "ulimit -u and the pids limit of the cgroup"},
    {resource, "thread", "resource temporarily unavailable", "a limit of processes or threads is reached",
     "ulimit -u and the pids limit of the cgroup"},
    {resource, "fork", "resource temporarily unavailable", "a limit of processes or threads is reached",
     "ulimit -u and the pids limit of the cgroup"},
    {unreachable, "no route to host", "", "a host cannot be reached", kRoute},
    {unreachable, "host is unreachable", "", "a host cannot be reached", kRoute},
    {unreachable, "network is unreachable", "", "a network cannot be reached", kRoute},
    {refused, "connection refused", "", "a host refuses connections", kRefused},
    {unreachable, "connection timed out", "", "a host does not answer", kRoute},
    {unreachable, "connect", "software caused connection abort", "a host does not answer", kRoute},
    {unreachable, "exceeded error retry count", "", "a host does not answer", kRoute},
    {unreachable, "exceeded retries", "", "a host does not answer", kRoute},
    {unreachable, "connect", "timed out", "a host does not answer", kRoute},
    {unreachable, "connect timeout", "", "a host does not answer", kRoute},
    {unreachable, "client socket has timed out", "", "the store of rank 0 does not answer",
     "MASTER_ADDR and MASTER_PORT of all ranks; nc -vz MASTER_ADDR MASTER_PORT; whether rank 0 started at all"},
    {config, "address already in use", "", "a port is taken: another job, or a left-over process of an earlier one",
     "ss -ltnp | grep PORT on that host; another MASTER_PORT; end left-over processes"},
    {config, "libibverbs", "", "libibverbs is missing: InfiniBand and RoCE cannot be used",
     "install libibverbs (rdma-core) in the image"},
    {config, "failed to initialize any net plugin", "", "no network plugin could be initialised",
     "NCCL_DEBUG_SUBSYS=INIT,NET; NCCL_NET, NCCL_NET_PLUGIN and NCCL_SOCKET_IFNAME"},
    {config, "fi_getinfo", "", "libfabric found no provider: this host has another network than it should",
     "fi_info -p efa on that host; the plugin and the devices in its container"},
    {config, "net/ofi", "unable to register memory", "the network's driver refused to register memory",
     "the versions of libfabric, its plugin and the NIC driver on that host against a host that works; GPU Direct"},
    {config, "net/ofi", "", "the OFI plugin could not be set up", "fi_info on that host"},
    {config, "duplicate gpu", "", "two ranks use the same GPU", "CUDA_VISIBLE_DEVICES and the ranks' device numbers"},
    {config, "no socket interface found", "", "NCCL_SOCKET_IFNAME names no interface of that host",
     "ip -br addr on that host; NCCL_SOCKET_IFNAME (unset, or a name from that list)"},
    {config, "no interface found", "", "NCCL_SOCKET_IFNAME names no interface of that host",
     "ip -br addr on that host; NCCL_SOCKET_IFNAME (unset, or a name from that list)"},
    {config, "no usable listening interface", "", "no network interface can be used", kInterface},
    {config, "mixed local net device counts", "", "hosts have different numbers of network devices",
     "NCCL_DEBUG_SUBSYS=NET on all; NCCL_IB_HCA; find the missing device instead of setting NCCL_IGNORE_NET_MISMATCH"},
    {config, "ibv_modify_qp", "", "the network card refused the connection: address (GID), route or device set-up",
     kVerbs},
    {config, "modify qp", "", "the network card refused the connection: address (GID), route or device set-up", kVerbs},
    {config, "ibv_", "no such device", "an RDMA device cannot be used", kVerbs},
    {config, "gid", "not found", "an RDMA device has no such address (GID)", kVerbs},
    {config, "driver version is insufficient", "", "the GPU driver is too old", "nvidia-smi on that host"},
    {config, "system not yet initialized", "", "the fabric manager does not run",
     "systemctl status nvidia-fabricmanager"},
    {config, "imex", "", "MNNVL is there but IMEX does not work", "nvidia-imex-ctl -N; NCCL_MNNVL_ENABLE=0 to go on"},
    {config, "invalid device ordinal", "", "a GPU number that does not exist", "CUDA_VISIBLE_DEVICES"},
    {config, "no cuda-capable device", "", "the process sees no GPU",
     "CUDA_VISIBLE_DEVICES; nvidia-smi in the container"},
    {config, "devices are busy or unavailable", "", "a GPU is taken, or in exclusive mode",
     "nvidia-smi on that host: which process holds it, and its compute mode"},
    {config, "no kernel image", "", "NCCL was not built for this GPU", "a build of NCCL for this GPU"},
    {config, "forward compatibility", "", "the GPU driver does not fit CUDA", "nvidia-smi on that host"},
    {config, "cannot assign requested address", "", "an address of another interface is used", "NCCL_SOCKET_IFNAME"},
    {config, "undefined symbol", "nccl", "libraries do not fit each other", kVersions},
    {config, "nccl_", "invalid", "a setting's value is invalid", "the setting's value"},
    {config, "nccl_", "unknown", "a setting's value is unknown", "the setting's value"},
    {config, "nccl_", "out of range", "a setting's value is out of range", "the setting's value"},
    {fallout, "unspecified launch failure", "", "the GPU context was already broken by an earlier kernel", kBroken},
    {fallout, "illegal memory access", "", "a kernel accessed memory that it must not",
     "compute-sanitizer; dmesg | grep -i xid"},
    {fallout, "misaligned address", "", "a kernel accessed misaligned memory", "compute-sanitizer"},
    {fallout, "device-side assert", "", "an assertion failed in a kernel", "CUDA_LAUNCH_BLOCKING=1"},
    {fallout, "commdestroysync", "", "destroyed after an earlier error", kBroken},
    {victim, "closed by remote peer", "", kGone, kCauseFirst},
    {victim, "connection closed by peer", "", kGone, kCauseFirst},
    {victim, "connection reset by peer", "", kGone, kCauseFirst},
    {victim, "broken pipe", "", kGone, kCauseFirst},
    {victim, "software caused connection abort", "", kGone, kCauseFirst},
    {victim, "proxy call to rank", "", kGone, kCauseFirst},
    {victim, "failed to execute operation", "", kGone, kCauseFirst},
    {victim, "error encountered progressing operation", "", kGone, kCauseFirst},
    {victim, "socket recv failed", "", kGone, kCauseFirst},
    {victim, "remote process exited", "", kGone, kCauseFirst},
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
  if (actor == WarningVoice::kNobody) return;
  const auto place = std::lower_bound(record.actors.begin(), record.actors.end(), actor);
  if (place != record.actors.end() && *place == actor) return;
  if (record.actors.size() < WarningBook::kActors) {
    record.actors.insert(place, actor);
  } else {
    ++record.actors_more;
  }
}

}  // namespace

const WarningRule& WarningBook::add(const Warning& warning, std::string_view timestamp, const WarningVoice& voice,
                                    std::size_t file, std::uint64_t line) {
  const WarningRule& rule = classify_warning(warning.file, warning.text);
  std::string shape = warning_shape(warning.text);
  // "error 5" and "error 12" have one shape, and are not one thing.
  const auto same = [&](const WarningRecord& one) { return one.rule == &rule && one.shape == shape; };
  auto record = std::ranges::find_if(records_, same);
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
                        .actor = voice.actor,
                        .ranks = {},
                        .hosts = {},
                        .actors = {},
                        .file = file,
                        .line = line});
    record = records_.end() - 1;
  }
  ++record->times;
  note_actor(*record, voice.actor);
  constexpr std::size_t kMost = 4096;
  if (voice.rank >= 0 && record->ranks.size() < kMost) record->ranks.insert(voice.rank);
  if (!voice.host.empty() && record->hosts.size() < kMost) record->hosts.insert(std::string(voice.host));
  if (!timestamp.empty() && timestamp < record->timestamp) {
    record->timestamp = timestamp.substr(0, 64);
    record->example = warning.text.substr(0, 500);
    record->actor = voice.actor;
  }
  return rule;
}

void WarningBook::merge(WarningBook&& other, const std::vector<std::uint32_t>& actors) {
  not_kept_ += other.not_kept_;
  for (WarningRecord& later : other.records_) {
    for (std::uint32_t& actor : later.actors) actor = actors[actor];
    if (later.actor != WarningVoice::kNobody) later.actor = actors[later.actor];
    std::ranges::sort(later.actors);
    const auto same = [&](const WarningRecord& one) { return one.rule == later.rule && one.shape == later.shape; };
    auto record = std::ranges::find_if(records_, same);
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
    record->ranks.merge(later.ranks);
    record->hosts.merge(later.hosts);
    if (record->actor == WarningVoice::kNobody) record->actor = later.actor;
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
