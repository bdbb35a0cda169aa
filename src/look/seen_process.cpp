
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/machine_facts.h"
#include "common/machine/mapped_nccl.h"
#include "common/machine/tcp_table.h"
#include "look/look_parts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

namespace busbar {
namespace {

constexpr std::size_t kMostThreads = 1024;  ///< read of a process
constexpr std::size_t kShownThreads = 64;
constexpr std::size_t kMostFiles = 4096;
constexpr std::size_t kLongestCommand = 400;
constexpr std::size_t kLongestValue = 200;
constexpr std::int64_t kSmallest = 32 << 20;  ///< [bytes] a process without variables of a job that may be a rank

double ticks_s(std::string_view text) {
  return static_cast<double>(number_of<std::uint64_t>(text).value_or(0)) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::int64_t whole(std::string_view text) { return leading_number<std::int64_t>(trimmed(text)).value_or(-1); }

std::int64_t field_number(std::string_view text, std::string_view key) {
  return whole(field_of(text, key).value_or(""));
}

using Variables = std::map<std::string_view, std::string_view>;

/// What a launcher calls the rank, the number of ranks and the rank on the host, the best source first: under Slurm
/// with torchrun, SLURM_PROCID is a node's number.
struct RankNames {
  std::string_view rank, size, local;
};
constexpr auto kRankNames = std::to_array<RankNames>({
    {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"PMIX_RANK", "SLURM_NTASKS", "SLURM_LOCALID"},
    {"JAX_PROCESS_ID", "JAX_NUM_PROCESSES", ""},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
});

/// Variables that are reported. Everything else in an environment stays there: a site may keep anything in it.
constexpr std::string_view kPrefixes =
    "TORCHELASTIC_ TORCH_NCCL_ TORCH_FR_ TORCH_DIST NCCL_ OMPI_COMM_ HOROVOD_ UCX_ GLOO_ JAX_";
constexpr std::string_view kListed =
    "RANK LOCAL_RANK GROUP_RANK NODE_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_WORLD_SIZE MASTER_ADDR MASTER_PORT "
    "PMI_RANK PMI_SIZE PMIX_RANK PMIX_NAMESPACE MPI_LOCALRANKID MPI_LOCALNRANKS SLURM_JOB_ID SLURM_STEP_ID "
    "SLURM_PROCID "
    "SLURM_LOCALID SLURM_NTASKS SLURM_NODEID SLURM_JOB_NUM_NODES SLURM_STEP_NUM_NODES CUDA_VISIBLE_DEVICES "
    "CUDA_LAUNCH_BLOCKING CUDA_DEVICE_MAX_CONNECTIONS FI_PROVIDER OMP_NUM_THREADS JOB_COMPLETION_INDEX "
    "PYTHON_DISABLE_REMOTE_DEBUG";

bool is_listed(std::string_view name) {
  static const std::vector<std::string_view> names = words_of(kListed), prefixes = words_of(kPrefixes);
  return (contains(names, name) || begins_with_any(name, prefixes)) && !names_secret(name);
}

/// The first of these variables that is set; empty: none.
std::string_view value_of(const Variables& variables, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const auto found = variables.find(name);
    if (found != variables.end() && !found->second.empty()) return found->second;
  }
  return {};
}

void read_rank(const Variables& variables, SeenProcess& p) {
  // A batch script has SLURM_PROCID=0 and starts the steps with the ranks.
  const bool in_batch = value_of(variables, {"SLURM_STEP_ID"}).empty();
  for (const auto& [rank, size, local] : kRankNames) {
    const auto number = number_of<int>(value_of(variables, {rank}));
    if (!number || *number < 0 || (rank == "SLURM_PROCID" && in_batch)) continue;
    p.look.rank = *number;
    p.look.rank_source = rank;
    p.look.nranks = number_of<int>(value_of(variables, {size})).value_or(-1);
    p.look.local_rank = number_of<int>(value_of(variables, {local})).value_or(-1);
    return;
  }
}

/// Where PyTorch puts the dumps of its Flight Recorder (triage_facts: the default moved after 2.6).
std::vector<std::string> dump_prefixes(const Variables& variables) {
  std::vector<std::string> prefixes;
  for (const char* name : {"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"})
    add_once(prefixes, std::string(value_of(variables, {name})));
  if (!prefixes.empty()) return prefixes;
  std::string cache(value_of(variables, {"XDG_CACHE_HOME"}));
  if (cache.empty()) cache = fmt::format("{}/.cache", value_of(variables, {"HOME"}));
  return {cache + "/torch/comm_lib_trace_rank_", "/tmp/nccl_trace_rank_"};
}

void read_variables(const std::string& text, SeenProcess& p) {
  Variables variables;
  for (const std::string_view entry : split_text(text, '\0')) {
    const std::size_t equals = entry.find('=');
    if (equals != kNotFound) variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  read_rank(variables, p);
  p.look.restarts = number_of<int>(value_of(variables, {"TORCHELASTIC_RESTART_COUNT"})).value_or(-1);
  const std::string_view address = value_of(variables, {"MASTER_ADDR"});
  p.look.master = masked(address.empty() ? std::string(value_of(variables, {"JAX_COORDINATOR_ADDRESS"}))
                                         : fmt::format("{}:{}", address, value_of(variables, {"MASTER_PORT"})));
  p.slurm_job = value_of(variables, {"SLURM_JOB_ID"});
  p.run_id = value_of(variables, {"TORCHELASTIC_RUN_ID"});
  if (p.run_id.empty() || p.run_id == "none" || p.run_id == "default")
    p.run_id = value_of(variables, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID"});
  p.ras_address = value_of(variables, {"NCCL_RAS_ADDR"});
  p.dump_prefixes = dump_prefixes(variables);
  p.dump_pipe = value_of(variables, {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "TORCH_FR_DEBUG_INFO_PIPE_FILE"});
  for (const auto& [name, value] : variables) {
    if (!is_listed(name) || p.look.environment.size() >= 100) continue;
    p.look.environment.push_back(masked(fmt::format("{}={}", name, value.substr(0, kLongestValue))));
  }
}

/// "ray::Worker rank 3": a number right after the word; -1: none.
int rank_in_title(std::string_view title) {
  const std::string lower = lower_case(title);
  for (std::size_t at = lower.find("rank"); at != std::string::npos; at = lower.find("rank", at + 1)) {
    const bool begins = at == 0 || (!std::isalnum(static_cast<unsigned char>(lower[at - 1])) && lower[at - 1] != '_');
    const std::size_t digits = std::min(lower.find_first_not_of(" :=_-", at + 4), lower.size());
    const auto number = leading_number<int>(std::string_view(lower).substr(digits));
    if (begins && digits <= at + 6 && number) return *number;
  }
  return -1;
}

void read_command(const std::string& text, const ProcessFilter& filter, SeenProcess& p) {
  std::vector<std::string_view> words = split_text(text, '\0');
  // A title has no ends of words, or only those of the arguments that it covers.
  std::erase_if(words, [](std::string_view word) { return word.empty(); });
  p.look.command = masked_command(words);
  if (p.look.command.size() > kLongestCommand) p.look.command = p.look.command.substr(0, kLongestCommand) + "...";
  const std::string plain = joined_words({words.begin(), words.end()});
  p.named = !filter.pattern.empty() && plain.find(filter.pattern) != std::string::npos;
  const bool titled = words.size() == 1 && words[0].find(' ') != kNotFound;
  if (titled) p.look.rank = rank_in_title(words[0]);
  if (p.look.rank >= 0) p.look.rank_source = "title";
}

/// "/slurm/uid_0/job_4242/step_0", "/system.slice/slurmstepd.scope/job_4242/...".
std::string slurm_job_of(std::string_view cgroup) {
  const std::size_t at = cgroup.find("/job_");
  if (at == kNotFound) return {};
  const std::string_view id = cgroup.substr(at + 5);
  return std::string(id.substr(0, id.find_first_not_of("0123456789")));
}

void read_mappings(const Probe& probe, const std::string& folder, SeenProcess& p) {
  LookProcess& look = p.look;
  constexpr auto kNames = std::to_array<std::pair<std::string_view, std::string_view>>({{"/libnccl.so", "nccl"},
                                                                                        {"/librccl.so", "rccl"},
                                                                                        {"/libmpi", "mpi"},
                                                                                        {"/libtorch", "torch"},
                                                                                        {"/libjax", "jax"},
                                                                                        {"/xla_extension", "jax"},
                                                                                        {"/libcuda.so", "cuda"},
                                                                                        {"/libpython", "python"}});
  const std::string maps =
      probe.read(folder + "/maps", kLongFile).value_or("");  // pinned and shared memory has thousands of lines
  for (const auto& [part, name] : kNames)
    if (maps.find(part) != std::string::npos) add_once(look.libraries, std::string(name));
  for (std::size_t at = maps.find("/busbar."); at != std::string::npos; at = maps.find("/busbar.", at + 1)) {
    const std::size_t begin = maps.rfind(' ', at) + 1;
    add_once(p.records, maps.substr(begin, maps.find('\n', at) - begin));
  }
  if (look.program.starts_with("python")) add_once(look.libraries, "python");
  if (contains(look.libraries, std::string("nccl")))
    look.nccl_version = probe.recorded ? 0 : mapped_nccl_version(look.pid).value_or(-1);
}

void read_files(const Probe& probe, const std::string& folder, SeenProcess& p) {
  const std::vector<std::string> fds = probe.list(folder + "/fd");
  if (fds.empty() && !probe.exists(folder + "/fd/0")) return;
  p.look.open_files = static_cast<int>(fds.size());
  for (const std::string& fd : fds) {
    if (p.files.size() >= kMostFiles) break;
    const std::string target = probe.link_text(folder + "/fd/" + fd).value_or("");
    constexpr std::string_view kGpu = "/dev/nvidia";
    if (target.starts_with(kGpu)) {
      const auto number = number_of<int>(std::string_view(target).substr(kGpu.size()));
      if (number && !contains(p.look.gpus, *number)) p.look.gpus.push_back(*number);
    }
    if (target.empty() || target.starts_with("pipe:") || target.starts_with("anon_inode:")) continue;
    SeenFile file{number_of<int>(fd).value_or(-1), target, false};
    if (target.starts_with('/')) {
      const std::string info = probe.read(fmt::format("{}/fdinfo/{}", folder, fd)).value_or("");
      file.writes = (number_of<unsigned>(trimmed(field_of(info, "flags").value_or("")), 8).value_or(0) & 3U) != 0;
    }
    p.files.push_back(std::move(file));
  }
  std::ranges::sort(p.look.gpus);
}

void read_limits(const Probe& probe, const std::string& folder, LookProcess& look) {
  for (const std::string& line : probe.lines(folder + "/limits")) {
    // "Max open files            1024                 1048576              files": the soft limit is in column 27.
    const std::string_view value = std::string_view(line).substr(std::min<std::size_t>(line.size(), 26));
    if (line.starts_with("Max open files")) look.open_files_limit = whole(value);
    if (line.starts_with("Max locked memory")) look.memlock_limit = whole(value);
  }
}

void read_threads(const Probe& probe, const std::string& folder, LookProcess& look) {
  std::vector<std::string> tids = probe.list(folder + "/task");
  const std::string main = std::to_string(look.pid);
  std::partition(tids.begin(), tids.end(), [&](const std::string& tid) { return tid == main; });
  if (tids.size() > kMostThreads) tids.resize(kMostThreads);
  for (const std::string& tid : tids) {
    const std::string at = folder + "/task/" + tid;
    LookThread thread;
    thread.tid = whole(tid);
    const std::string text = probe.read(at + "/stat").value_or("");
    const auto fields = stat_fields(text, &thread.name);
    if (fields.size() < 13) continue;
    thread.state = fields[0].front();
    thread.cpu_s = ticks_s(fields[11]) + ticks_s(fields[12]);
    thread.wchan = wchan_of(probe, at);
    thread.slept = field_number(probe.read(at + "/status").value_or(""), "voluntary_ctxt_switches");
    const std::string io = tid == main ? probe.read(at + "/io").value_or("") : "";
    if (!io.empty()) thread.moved = field_number(io, "rchar") + field_number(io, "wchar");
    look.threads.push_back(std::move(thread));
  }
}

std::string user_name(const Probe& probe, unsigned uid) {
  for (const std::string& line : probe.lines("/etc/passwd")) {  // a static program must not ask NSS
    const auto fields = split_text(line, ':');
    if (fields.size() > 2 && number_of<unsigned>(fields[2]) == uid) return std::string(fields[0]);
  }
  return std::to_string(uid);
}

/// What every process has: read without touching its memory.
bool read_brief(const Probe& probe, const std::string& folder, SeenProcess& p) {
  LookProcess& look = p.look;
  std::string name;
  const std::string text = probe.read(folder + "/stat").value_or("");
  const auto fields = stat_fields(text, &name);
  if (fields.size() < 22) return false;
  if (look.program.empty()) look.program = std::move(name);
  look.state_before = look.state = fields[0].front();
  look.parent = whole(fields[1]);
  constexpr std::uint64_t kKernelThread = 0x00200000;  // PF_KTHREAD; in a container pid 2 may be anything
  p.kernel_thread = (number_of<std::uint64_t>(fields[6]).value_or(0) & kKernelThread) != 0;
  look.cpu_s = ticks_s(fields[11]) + ticks_s(fields[12]);
  look.children_cpu_s = ticks_s(fields[13]) + ticks_s(fields[14]);
  look.nthreads = static_cast<int>(whole(fields[17]));
  p.since_boot_s = ticks_s(fields[19]);
  const std::string status = probe.read(folder + "/status").value_or("");
  look.tracer_before = look.tracer = std::max<std::int64_t>(0, field_number(status, "TracerPid"));
  p.uid = static_cast<unsigned>(std::max<std::int64_t>(0, field_number(status, "Uid")));
  const auto inner = words_of(field_of(status, "NSpid").value_or(""));
  look.inner_pid = inner.empty() ? look.pid : whole(inner.back());
  look.rss_bytes = static_cast<std::int64_t>(kilobytes_of(status, "VmRSS").value_or(0));
  look.wchan = wchan_of(probe, folder);
  return true;
}

/// What can move, besides what is brief.
void read_vitals(const Probe& probe, const std::string& folder, SeenProcess& p) {
  LookProcess& look = p.look;
  const std::string io = probe.read(folder + "/io").value_or("");
  look.bytes_read = field_number(io, "rchar");
  look.bytes_written = field_number(io, "wchar");
  read_files(probe, folder, p);
  read_threads(probe, folder, look);
}

/// The main thread, then those that say something, no more than are shown.
void keep_threads(LookProcess& look) {
  const auto weight = [&](const LookThread& t) {
    if (t.tid == look.pid) return 0;
    if (!t.python.empty() || !t.native.empty()) return 1;
    if (t.name.starts_with("pt_") || t.name.starts_with("NCCL") || t.name.starts_with("gloo")) return 2;
    return t.cpu_s > 0 ? 3 : 4;
  };
  std::ranges::stable_sort(look.threads, [&](const auto& a, const auto& b) { return weight(a) < weight(b); });
  if (look.threads.size() > kShownThreads) look.threads.resize(kShownThreads);
}

}  // namespace

std::vector<std::int64_t> process_ids(const Probe& probe) {
  std::vector<std::int64_t> pids;
  for (const std::string& name : probe.list("/proc"))
    if (const auto pid = number_of<std::int64_t>(name)) pids.push_back(*pid);
  std::ranges::sort(pids);
  return pids;
}

SeenProcess read_process(const Probe& probe, std::int64_t pid, const ProcessFilter& filter) {
  const std::string folder = fmt::format("/proc/{}", pid);
  SeenProcess p;
  p.look.pid = pid;
  if (!read_brief(probe, folder, p)) return {};
  if (p.kernel_thread) return p;
  if (const auto exe = probe.link_name(folder + "/exe")) p.look.program = exe->substr(0, exe->find(" (deleted)"));
  read_command(probe.read(folder + "/cmdline").value_or(""), filter, p);
  const auto variables = probe.read(folder + "/environ");
  if (variables) {
    read_variables(*variables, p);
  } else if (probe.exists(folder + "/stat")) {  // else it has ended meanwhile
    p.environ_hidden = true;
  }
  if (p.slurm_job.empty()) p.slurm_job = slurm_job_of(probe.read(folder + "/cgroup").value_or(""));
  p.look.user = user_name(probe, p.uid);
  const bool candidate = p.named || p.look.rank >= 0 || p.look.rss_bytes >= kSmallest;
  if (!candidate) return p;
  p.folder = probe.link_text(folder + "/cwd").value_or("");
  p.look.pid_namespace = namespace_of(probe, folder, "pid");
  p.look.net_namespace = namespace_of(probe, folder, "net");
  read_mappings(probe, folder, p);
  read_limits(probe, folder, p.look);
  read_vitals(probe, folder, p);
  return p;
}

SeenProcess read_again(const Probe& probe, const SeenProcess& seen) {
  const std::string folder = fmt::format("/proc/{}", seen.look.pid);
  SeenProcess now = seen;
  if (!read_brief(probe, folder, now) || now.since_boot_s != seen.since_boot_s) {
    now = seen;
    now.look.state = 'X';
    return now;
  }
  now.files.clear();
  now.look.threads.clear();
  read_vitals(probe, folder, now);
  if (now.look.tracer > 0)
    now.look.tracer_program = probe.read(fmt::format("/proc/{}/comm", now.look.tracer)).value_or("");
  return now;
}

LookProcess process_growth(const LookProcess& earlier, LookProcess later) {
  later.state_before = earlier.state_before;
  later.tracer_before = earlier.tracer_before;
  grow(earlier, later, &LookProcess::cpu_s, &LookProcess::children_cpu_s);
  grow(earlier, later, &LookProcess::bytes_read, &LookProcess::bytes_written);
  later.rss_growth = later.rss_bytes - earlier.rss_bytes;
  std::map<std::int64_t, const LookThread*> before;
  for (const LookThread& thread : earlier.threads) before[thread.tid] = &thread;
  for (LookThread& thread : later.threads) {
    const auto found = before.find(thread.tid);
    if (found == before.end()) continue;  // it was born between the looks
    grow(*found->second, thread, &LookThread::cpu_s);
    grow(*found->second, thread, &LookThread::slept, &LookThread::moved);
    if (found->second->python != thread.python) thread.python_before = found->second->python;
  }
  keep_threads(later);
  return later;
}

std::vector<LookSocket> attention_sockets(const std::vector<SeenFile>& files, std::string_view earlier,
                                          std::string_view later) {
  std::set<std::uint64_t> inodes;
  for (const SeenFile& file : files)
    if (const auto inode = socket_inode(file.target)) inodes.insert(*inode);
  std::map<std::uint64_t, TcpSocket> before;
  for (TcpSocket& one : parse_tcp_table(earlier)) before.emplace(one.inode, std::move(one));
  std::vector<LookSocket> sockets;
  for (const TcpSocket& one : parse_tcp_table(later)) {
    const bool listens = one.state == TcpState::listen;
    const bool waits = one.state != TcpState::established || one.unsent > 0 || one.unread > 0;
    if (listens || !waits || !inodes.contains(one.inode)) continue;
    const auto found = before.find(one.inode);
    const bool same = found != before.end() && found->second.state == one.state && found->second.unsent == one.unsent &&
                      found->second.unread == one.unread;
    sockets.push_back({fmt::format("{}:{}", one.local, one.local_port),
                       fmt::format("{}:{}", one.remote, one.remote_port), std::string(name(one.state)), one.unsent,
                       one.unread, one.retransmits, same});
  }
  return sockets;
}

}  // namespace busbar
