#include "driver/diagnose/nccl_warnings.h"

#include "common/base/log_scan.h"
#include "common/base/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <tuple>
#include <utility>

namespace busbar {
namespace {

using enum WarningKind;

constexpr std::string_view kShm =
    "df -h /dev/shm in the job on that host: where it is full remove stale /dev/shm/nccl-* or enlarge it (docker "
    "--shm-size, the pod's /dev/shm); where it is not, the memory limit of the job's cgroup";
constexpr std::string_view kPort =
    "ibstat on that host: a port that is not Active is the cable or the switch; if it is Active, perfquery -x: "
    "SymbolErrors or LinkDowned that grow mean the cable, the transceiver or the peer's port";
constexpr std::string_view kPath =
    "ib_write_bw -d DEVICE between the two hosts: if it fails or is slow too, ibstat, the error counters, cable and "
    "switch port of both ends (over RoCE also NCCL_IB_GID_INDEX, MTU and PFC); if it works, the peer's process had "
    "gone: its log";
constexpr std::string_view kRegistered =
    "the job with NCCL_NET_GDR_LEVEL=LOC: if it runs then, GPU Direct on that host (nvidia_peermem or DMA-BUF, IOMMU, "
    "ACS); else dmesg | grep -i xid";
constexpr std::string_view kGpu =
    "dmesg | grep -i xid and nvidia-smi -q -d ECC on that host: an XID, or uncorrectable errors above 0, is the "
    "board: drain the host, reset the GPU, return it if it comes again; nvidia-smi nvlink -e tells the errors of "
    "NVLink";
constexpr std::string_view kRoute =
    "ping PEER, then nc -vz PEER PORT, from the host that complains: if ping fails, the route or the interface (ip "
    "-br addr; NCCL_SOCKET_IFNAME); if only nc fails, a firewall";
constexpr std::string_view kBroken =
    "dmesg | grep -i xid on that host: an XID names the cause; without one the program's own first CUDA error "
    "(CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer names the kernel)";
constexpr std::string_view kCauseFirst =
    "the first error by time in the logs and dmesg of the process that failed first";

constexpr std::string_view kVerbs =
    "ibv_devinfo and show_gids on that host: a device of NCCL_IB_HCA that is missing, not PORT_ACTIVE or without a "
    "GID is the one; if all are well, unset NCCL_IB_GID_INDEX";
constexpr std::string_view kVersions =
    "NCCL_DEBUG=VERSION on all hosts (python3 -c \"import torch; print(torch.cuda.nccl.version())\"): where it "
    "differs, "
    "another image or LD_LIBRARY_PATH; if nowhere, the versions of driver and plugins";
constexpr std::string_view kMemlock =
    "ulimit -l inside the job: anything but unlimited is the cause (LimitMEMLOCK of the launcher's daemon, docker "
    "--ulimit memlock=-1); if it is unlimited, free -h: memory itself";
constexpr std::string_view kRefused =
    "ps on the host of that address: if the process is gone, its last lines tell why, and it is the one to mend; if "
    "it runs, nc -vz ADDRESS PORT: a refusal is a firewall, or it listens on another interface";
constexpr std::string_view kInterface =
    "ip -br addr on all hosts: NCCL_SOCKET_IFNAME must name an interface that is UP on each of them (^lo,docker,veth "
    "leaves the choice to NCCL)";
constexpr std::string_view kSameGpu =
    "CUDA_VISIBLE_DEVICES and the device of each rank on that host: ranks that chose the same must choose by their "
    "local rank (torch.cuda.set_device); if none did, there are more ranks than GPUs";
constexpr std::string_view kGpuMemory =
    "nvidia-smi on that host: another process on the GPU has to go; if only the job's own are there, smaller batches "
    "or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (NCCL needs some hundred MB of its own)";
constexpr std::string_view kThreads =
    "ulimit -u and the cgroup's pids.max inside the job against its threads (ps -eLf | wc -l): raise the one that is "
    "reached";
constexpr std::string_view kValue =
    "env | grep NCCL on that host: unset it, or give a value that this version of NCCL has";
constexpr std::string_view kNoGdrCopy = "no GDRCopy here: nothing but one-sided communication needs it";
constexpr std::string_view kNamedNetwork =
    "NCCL_DEBUG_SUBSYS=INIT,NET: why NCCL did not take the network, or the plugin, that is asked for (a device, a "
    "library "
    "that is missing: ibv_devinfo, ldconfig -p | grep nccl-net in the job); or unset NCCL_NET and NCCL_NET_PLUGIN";
constexpr std::string_view kRetry = "InfiniBand completion error 12: the peer did not acknowledge after all retries";
constexpr std::string_view kFlush = "a queue was flushed after an earlier error";
constexpr std::string_view kDevShm = "/dev/shm is full or too small";
constexpr std::string_view kOtherSize = "the network transport received another size than it expected";
constexpr std::string_view kSizes =
    "NCCL_ALGO, NCCL_PROTO, NCCL_BUFFSIZE and versions of all hosts: what differs is the cause; if nothing does, the "
    "calls do: NCCL_DEBUG_SUBSYS=COLL on all ranks";
constexpr std::string_view kEcc = "uncorrectable memory error of a GPU (ECC)";
constexpr std::string_view kNoSuchInterface = "NCCL_SOCKET_IFNAME names no interface of that host";
constexpr std::string_view kInterfaces =
    "ip -br addr on that host: NCCL_SOCKET_IFNAME must name one of that list that is UP, or be unset";
constexpr std::string_view kLockedMemory = "memory cannot be registered: locked memory is limited";
constexpr std::string_view kNotReady = "InfiniBand completion error 13: the peer was not ready after all retries";
constexpr std::string_view kNoAnswer = "a host does not answer";
constexpr std::string_view kProtection = "InfiniBand completion error 4: local protection error";
constexpr std::string_view kGone = "a peer went away";

// Texts are those of NCCL 2.3 to 2.30, RCCL, their plugins, CUDA, PyTorch and Gloo. Special ones first.
constexpr auto kRules = std::to_array<WarningRule>({
    {harmless, "ras/", "call to bind failed", "another job owns the RAS port", ""},
    {harmless, "iommu", "", "", ""},
    {harmless, "numa auto balancing", "", "", ""},
    {harmless, "could not enable p2p", "", "", ""},
    {harmless, "gdrcopy", "not available", kNoGdrCopy, ""},
    {harmless, "requires gdrcopy", "", kNoGdrCopy, ""},
    {harmless, "failed to open", "libgdrapi", kNoGdrCopy, ""},
    {harmless, "failed to initialize net plugin", "", "that network is not here: NCCL takes the next one", ""},
    {harmless, "lib wrapper not initialized", "", "no libibverbs here: nothing but InfiniBand needs it", ""},
    {call_mismatch, "mismatched collective", "", "NCCL found that ranks called different collectives",
     "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL on all ranks, and busbar diagnose on those logs: it names the rank and "
     "the call"},
    {size_mismatch, "collective mismatch error", "", kOtherSize, kSizes},
    {size_mismatch, "message truncated", "", kOtherSize, kSizes},
    // Records of the bootstrap that do not fit: the sender's has another layout, or is not NCCL's.
    {config, "bootstrap root", "mismatch in info from procs",
     "processes sent the bootstrap root records that do not fit: their versions of NCCL differ", kVersions},
    {config, "mismatch in rank count", "", "ranks disagree on how many ranks there are",
     "WORLD_SIZE and the process groups of all ranks: what differs is the cause; ps on the hosts: left-over processes "
     "of another run"},
    {config, "wrong type",
     "!=", "a peer speaks another protocol: ranks of one job chose different networks, or another program connected",
     "\"Using network\" in the logs of all hosts; NCCL_NET, NCCL_IB_DISABLE and the plugin must be the same"},
    {config, "wrong magic", "", "a process of another job, or a port scanner, connected",
     "left-over processes of earlier jobs on those hosts (ps); MASTER_PORT and NCCL_COMM_ID of jobs that share hosts"},
    {config, "mismatched nccl version", "", "ranks have different versions of NCCL", kVersions},
    {config, "driver/library version mismatch", "", "the GPU driver was changed under the running kernel module",
     "nvidia-smi on that host: if it says the same, reboot it, or reload its driver; if it works, the container holds "
     "another driver's libraries"},
    {config, "version mismatch", "", "versions differ", kVersions},
    {config, "does not support the kernel abi", "",
     "the RDMA library in the container does not fit the driver of the kernel: its devices are not used",
     "ibv_devinfo in the container: no device there means that its rdma-core does not fit the host's driver: install "
     "the vendor's; until then NCCL uses TCP"},
    // A flushed work request follows from an error before it.
    {victim, "completion", "error 5,", kFlush, kCauseFirst},
    {victim, "completion", "status=5 ", kFlush, kCauseFirst},
    {victim, "completion", "status=5,", kFlush, kCauseFirst},
    {victim, "wr_flush_err", "", kFlush, kCauseFirst},
    {hardware, "completion", "error 12", kRetry, kPath},
    {hardware, "completion", "status=12", kRetry, kPath},
    {hardware, "retry_exc_err", "", kRetry, kPath},
    {hardware, "completion", "error 13", kNotReady, kPath},
    {hardware, "completion", "status=13", kNotReady, kPath},
    {hardware, "completion", "error 4,", kProtection, kRegistered},
    {hardware, "completion", "status=4 ", kProtection, kRegistered},
    {hardware, "loc_prot_err", "", kProtection, kRegistered},
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
     "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER on that host: HW Thermal Slowdown means fans and air flow, HW "
     "Power Brake the power supply"},
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
    {resource, "ibv_reg_", "cannot allocate memory", kLockedMemory, kMemlock},
    {resource, "ibv_create", "cannot allocate memory", "queues cannot be created: locked memory is limited", kMemlock},
    {resource, "register", "cannot allocate memory", kLockedMemory, kMemlock},
    {resource, "register", "rc: -12", kLockedMemory, kMemlock},
    {resource, "fi_mr_reg", "-12", kLockedMemory, kMemlock},
    {resource, "memlock", "", "locked memory is limited", kMemlock},
    {resource, "too many open files", "", "file descriptors are used up",
     "ulimit -n inside the job, on all hosts: less than 65536 is too few (a mesh of N ranks needs N per process); if "
     "it is more, ls /proc/PID/fd | wc -l: a number that grows is a leak of the program"},
    {resource, "cannot allocate memory", "", "memory is used up",
     "free -h and ulimit -l on that host, in the job: little free memory, or a limit that is not unlimited, is the "
     "cause"},
    {resource, "out of memory", "", "memory of the GPU or host is used up", kGpuMemory},
    {resource, "outofmemory", "", "memory of the GPU or host is used up", kGpuMemory},
    {resource, "failed to cuda calloc", "", "memory of the GPU is used up", kGpuMemory},
    {resource, "running low on memory", "", "memory of the host is used up",
     "free -h on that host and the job's limit (cgroup, --mem): the smaller one is reached: more memory, or fewer "
     "workers of the data loader"},
    {resource, "pthread_create", "", "no thread can be created", kThreads},
    {resource, "thread", "resource temporarily unavailable", "a limit of processes or threads is reached", kThreads},
    {resource, "fork", "resource temporarily unavailable", "a limit of processes or threads is reached", kThreads},
    {unreachable, "no route to host", "", "a host cannot be reached", kRoute},
    {unreachable, "host is unreachable", "", "a host cannot be reached", kRoute},
    {unreachable, "network is unreachable", "", "a network cannot be reached", kRoute},
    {refused, "connection refused", "", "a host refuses connections", kRefused},
    {unreachable, "connection timed out", "", kNoAnswer, kRoute},
    {unreachable, "connect", "software caused connection abort", kNoAnswer, kRoute},
    {unreachable, "exceeded error retry count", "", kNoAnswer, kRoute},
    {unreachable, "exceeded retries", "", kNoAnswer, kRoute},
    {unreachable, "connect", "timed out", kNoAnswer, kRoute},
    {unreachable, "connect timeout", "", kNoAnswer, kRoute},
    {unreachable, "client socket has timed out", "", "the store of rank 0 does not answer",
     "nc -vz MASTER_ADDR MASTER_PORT from that host: if it fails, whether rank 0 started at all, and its firewall; if "
     "it works, rank 0 was late: a longer timeout"},
    {config, "address already in use", "", "a port is taken: another job, or a left-over process of an earlier one",
     "ss -ltnp | grep PORT on that host: end the process that it names, or take another MASTER_PORT"},
    {config, "libibverbs", "", "libibverbs is missing: InfiniBand and RoCE cannot be used",
     "install libibverbs (rdma-core) in the image"},
    {config, "failed to initialize any net plugin", "", "no network plugin could be initialised",
     "NCCL_DEBUG_SUBSYS=INIT,NET: the lines before it say which plugin refused, and why; NCCL_NET=Socket tells "
     "whether all else works"},
    {config, "error: network", "not found", "the network that NCCL_NET names is not there", kNamedNetwork},
    {config, "fi_getinfo", "", "libfabric found no provider: this host has another network than it should",
     "fi_info -p efa in the container on that host: without an answer the devices or libfabric are missing there; "
     "with one, the plugin's version"},
    {config, "net/ofi", "unable to register memory", "the network's driver refused to register memory",
     "the versions of libfabric, its plugin and the NIC driver on that host against a host that works: what differs "
     "is the cause; if nothing does, NCCL_NET_GDR_LEVEL=LOC: if the job runs then, GPU Direct"},
    {config, "net/ofi", "", "the OFI plugin could not be set up",
     "fi_info in the container on that host: without providers the devices or libfabric are missing there"},
    {config, "duplicate gpu", "", "two ranks use the same GPU", kSameGpu},
    {config, "ranks are using the same gpu", "", "two ranks use the same GPU", kSameGpu},  // from 2.30 on
    {config, "no socket interface found", "", kNoSuchInterface, kInterfaces},
    {config, "no interface found", "", kNoSuchInterface, kInterfaces},
    {config, "no usable listening interface", "", "no network interface can be used", kInterface},
    {config, "mixed local net device counts", "", "hosts have different numbers of network devices",
     "ibv_devinfo -l on all hosts: the one that lists fewer has lost a device (dmesg, lspci there); find it instead "
     "of setting NCCL_IGNORE_NET_MISMATCH"},
    {config, "ibv_modify_qp", "", "the network card refused the connection: address (GID), route or device set-up",
     kVerbs},
    {config, "modify qp", "", "the network card refused the connection: address (GID), route or device set-up", kVerbs},
    {config, "ibv_", "no such device", "an RDMA device cannot be used", kVerbs},
    {config, "gid", "not found", "an RDMA device has no such address (GID)", kVerbs},
    {config, "driver version is insufficient", "", "the GPU driver is too old",
     "nvidia-smi on that host: the CUDA version in its head must not be older than the program's: a newer driver or "
     "an older image"},
    {config, "system not yet initialized", "", "the fabric manager does not run",
     "systemctl status nvidia-fabricmanager on that host: start it if it does not run; if it fails, its version must "
     "be the driver's"},
    {config, "imex", "", "MNNVL is there but IMEX does not work",
     "nvidia-imex-ctl -N: a node that is not READY is the one; NCCL_MNNVL_ENABLE=0 to go on without"},
    {config, "invalid device ordinal", "", "a GPU number that does not exist",
     "nvidia-smi -L and CUDA_VISIBLE_DEVICES in the job on that host: fewer GPUs than ranks: fewer ranks per host, or "
     "more GPUs asked for"},
    {config, "no cuda-capable device", "", "the process sees no GPU",
     "nvidia-smi -L in the container: no GPU means that the container was not given one (--gpus, the pod's "
     "resources); else CUDA_VISIBLE_DEVICES is empty or wrong"},
    {config, "devices are busy or unavailable", "", "a GPU is taken, or in exclusive mode",
     "nvidia-smi on that host: a process that holds the GPU has to go; compute mode Exclusive has to be Default"},
    {config, "no kernel image", "", "NCCL was not built for this GPU",
     "nvidia-smi --query-gpu=compute_cap --format=csv on that host: NCCL and the program must be built for it"},
    {config, "forward compatibility", "", "the GPU driver does not fit CUDA",
     "nvidia-smi on that host: its driver must fit the CUDA of the image: without cuda-compat in the image, or a "
     "newer driver"},
    {config, "cannot assign requested address", "", "an address of another interface is used",
     "ip -br addr on that host: NCCL_SOCKET_IFNAME must name an interface with an address"},
    {config, "undefined symbol", "nccl", "libraries do not fit each other", kVersions},
    {config, "nccl_", "invalid", "a setting's value is invalid", kValue},
    {config, "nccl_", "unknown", "a setting's value is unknown", kValue},
    {config, "nccl_", "out of range", "a setting's value is out of range", kValue},
    {fallout, "unspecified launch failure", "", "the GPU context was already broken by an earlier kernel", kBroken},
    {fallout, "illegal memory access", "", "a kernel accessed memory that it must not",
     "dmesg | grep -i xid on that host: XID 48, 63, 64, 79, 94 or 95 is the board; 13, 31 or none is the program: "
     "compute-sanitizer names the kernel"},
    {fallout, "misaligned address", "", "a kernel accessed misaligned memory",
     "compute-sanitizer on the program: it names the kernel"},
    {fallout, "device-side assert", "", "an assertion failed in a kernel",
     "CUDA_LAUNCH_BLOCKING=1: the traceback is then that of the kernel that failed, an index out of range as a rule"},
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
