#include "look/take_look.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/machine_facts.h"
#include "common/watch/ras.h"
#include "look/apart.h"
#include "look/host_facts.h"
#include "look/job_files.h"
#include "look/mask.h"
#include "look/programs.h"
#include "look/roles.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>
#include <ctime>
#include <map>
#include <set>
#include <utility>

namespace busbar {
namespace {

using Clock = std::chrono::steady_clock;
using Role = LookProcess::Role;
using Came = LookCollector::Outcome;
using Stacks = std::map<std::int64_t, std::vector<LookThread>>;

// This process stays below 64 MiB.
constexpr std::size_t kMostLogBytes = 4 << 20;   ///< of one log
constexpr std::size_t kMostDumpBytes = 3 << 20;  ///< of one dump
constexpr std::size_t kDumpsTogether = 8 << 20;  ///< as text
constexpr std::size_t kMostStacks = 128;

constexpr std::string_view kAllowStacks =
    "`pip install py-spy` into the job's environment, or as root into /usr/local/bin; to read another process needs "
    "its "
    "user, or CAP_SYS_PTRACE in containers and with kernel.yama.ptrace_scope=1";
constexpr std::string_view kAllowDumps =
    "start the job with TORCH_FR_BUFFER_SIZE=2000 and TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/tmp/fr_";
constexpr std::string_view kAllowLogs = "run as the job's user, or as root";

double now_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

class Look {
 public:
  Look(const Probe& probe, const LookOptions& options) : probe_(probe), options_(options) {}

  HostLook take() {
    describe_host();
    find_processes();
    const Clock::time_point first = Clock::now();
    sample(before_);
    const std::chrono::duration<double, std::milli> wait =
        first + std::chrono::duration<double>(options_.apart_s) - Clock::now();
    if (wait.count() > 0) poll(nullptr, 0, static_cast<int>(wait.count()));
    sample(after_);
    if (options_.flight_recorder) request_dumps();
    if (options_.native_stacks) read_native_stacks();
    look_.look_s = std::chrono::duration<double>(Clock::now() - first).count();
    see_again();  // after everything that could have disturbed them
    report_growth();
    report_blocked();
    read_kernel_log();
    read_logs();
    read_dumps();
    return std::move(look_);
  }

 private:
  /// What is sampled in both looks, besides the processes.
  struct Sample {
    std::vector<LookPort> ports;
    std::vector<LookCounter> counters;
    std::vector<LookGroup> groups;
    std::vector<LookGpu> gpus;
    std::map<std::uint64_t, std::string> tcp;  ///< the tables of each network namespace
    Stacks stacks;
    std::vector<OpenLog> logs;
    std::string ras;
  };

  /// Remembers the worst that a collector met.
  void note(const std::string& name, Came outcome, const std::string& why = {}, std::string_view allow = {}) {
    const auto found = std::ranges::find(look_.collectors, name, &LookCollector::name);
    LookCollector now{name, outcome, masked(without_controls(why)), std::string(allow)};
    if (found == look_.collectors.end()) {
      look_.collectors.push_back(std::move(now));
    } else if (outcome > found->outcome) {
      *found = std::move(now);
    }
  }

  /// The results of a collector's items, each done apart within what is left of the time.
  template <class Work>
  auto gather(const std::string& name, std::size_t items, ApartLimits limits, std::string_view allow,
              const Work& work) {
    const double left_s = std::chrono::duration<double>(deadline_ - Clock::now()).count();
    limits.all_s = std::clamp(left_s, 0.05, limits.all_s);
    auto results = records_apart(items, limits, work);
    for (const auto& [value, why, timed_out] : results) {
      note(name, value ? Came::ok : timed_out ? Came::timed_out : Came::unreadable, why, allow);
    }
    return results;
  }

  template <class Work>
  auto value_of(const std::string& name, double limit_s, const Work& work, std::string_view allow = {}) {
    auto results = gather(name, 1, {limit_s, limit_s, 1}, allow, [&](std::size_t) { return work(); });
    return std::move(results[0].value).value_or(decltype(work()){});
  }

  void describe_host() {
    char name[HOST_NAME_MAX + 1] = {};
    gethostname(name, sizeof name - 1);
    look_.host = std::string_view(name).substr(0, std::string_view(name).find('.', 1));
    utsname system{};
    if (uname(&system) == 0) look_.kernel = fmt::format("{} {}", system.release, system.machine);
    look_.boot_id = probe_.read("/proc/sys/kernel/random/boot_id").value_or("");
    look_.net_namespace = namespace_of(probe_, "/proc/self", "net");
    timespec since_boot{};
    clock_gettime(CLOCK_BOOTTIME, &since_boot);
    look_.time_s = now_s();
    look_.boot_s =
        look_.time_s - static_cast<double>(since_boot.tv_sec) - static_cast<double>(since_boot.tv_nsec) / 1e9;
  }

  std::vector<SeenProcess> see(const std::vector<std::int64_t>& pids) {
    // In pieces: a process for each of a thousand would take longer than their reading.
    constexpr std::size_t kPiece = 16;
    std::vector<SeenProcess> seen;
    std::vector<std::int64_t> single;
    const auto keep = [&](std::vector<SeenProcess> some) {
      for (SeenProcess& p : some) {
        p.look.start_s += look_.boot_s;
        if (!p.look.program.empty()) seen.push_back(std::move(p));
      }
    };
    const auto read = [&](std::size_t from, std::size_t n, const std::vector<std::int64_t>& of) {
      std::vector<SeenProcess> some;
      for (std::size_t i = from; i < std::min(from + n, of.size()); ++i) {
        some.push_back(read_process(probe_, of[i], options_.filter));
      }
      return some;
    };
    const auto pieces = records_apart((pids.size() + kPiece - 1) / kPiece, {4, 20},
                                      [&](std::size_t i) { return read(i * kPiece, kPiece, pids); });
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto end = std::min((i + 1) * kPiece, pids.size());
      if (pieces[i].value)
        keep(*pieces[i].value);
      else
        single.insert(single.end(), pids.begin() + static_cast<std::ptrdiff_t>(i * kPiece),
                      pids.begin() + static_cast<std::ptrdiff_t>(end));
    }
    // One of a piece did not answer.
    const auto ones = records_apart(single.size(), {2, 15}, [&](std::size_t i) { return read(i, 1, single); });
    note("processes", Came::ok);
    for (std::size_t i = 0; i < ones.size(); ++i) {
      if (ones[i].value)
        keep(*ones[i].value);
      else
        note("processes", Came::timed_out, fmt::format("/proc/{} does not answer", single[i]));
    }
    return seen;
  }

  void find_processes() {
    std::vector<SeenProcess> all = see(process_ids(probe_));
    std::set<std::string> users;
    std::size_t hidden = 0;
    for (const SeenProcess& p : all) {
      if (!p.kernel_thread && waits_for_files(p.look)) waiting_.push_back(p.look);
      if (p.kernel_thread || !p.environ_hidden || p.look.state == 'Z' || geteuid() == 0) continue;
      users.insert(p.look.user);
      ++hidden;
    }
    note("environment", hidden == 0 ? Came::ok : Came::unreadable,
         fmt::format("/proc/PID/environ: permission denied for {} of {} processes", hidden, all.size()),
         fmt::format("run as root, or as user {}", joined_words({users.begin(), users.end()}, ", ")));
    job_ = job_processes(std::move(all), options_.filter, getpid());
    served_ = served_mounts(probe_);
    // Mounts on which nothing is opened. A short wait for a local disk is no trouble.
    for (const LookBlocked& one : blocked_of(waiting_)) {
      for (const std::string& mount : one.mounts) {
        if (contains(served_, mount)) blocked_mounts_.push_back(mount);
      }
    }
  }

  std::vector<LookBlocked> blocked_of(const std::vector<LookProcess>& processes) {
    std::vector<LookBlocked> blocked;
    const auto results = gather("file systems", processes.size(), {2, 6}, {}, [&](std::size_t i) {
      const SeenProcess now = read_process(probe_, processes[i].pid, options_.filter);
      return waits_for_files(now.look) ? blocked_process(probe_, now.look, served_) : LookBlocked();
    });
    for (std::size_t i = 0; i < results.size(); ++i) {
      const LookProcess& p = processes[i];
      const LookBlocked one = results[i].value.value_or(LookBlocked{p.pid, p.program, p.wchan, {}});
      if (one.pid != 0) blocked.push_back(one);
    }
    return blocked;
  }

  void sample(Sample& s) {
    constexpr double kLimit = 5;
    s.ports = value_of("ports", kLimit, [&] { return read_ports(probe_); });
    s.counters = value_of("counters", kLimit, [&] { return read_host_counters(probe_); });
    s.groups = value_of("control groups", kLimit, [&] { return read_groups(probe_, pids_of_job()); });
    for (const SeenProcess& p : job_) {
      if (p.look.net_namespace == 0 || s.tcp.contains(p.look.net_namespace)) continue;
      s.tcp[p.look.net_namespace] = value_of("sockets", 3, [&] {
        const std::string folder = fmt::format("/proc/{}/net/", p.look.pid);
        return probe_.read(folder + "tcp").value_or("") + "\n" + probe_.read(folder + "tcp6").value_or("");
      });
    }
    sample_gpus(s);
    sample_stacks(s);
    const double now = now_s();
    const std::vector<OpenLog> logs = open_logs(job_, blocked_mounts_);
    for (auto& result :
         gather("logs", logs.size(), {1, 5}, kAllowLogs, [&](std::size_t i) { return with_size(logs[i], now); })) {
      if (result.value) s.logs.push_back(std::move(*result.value));
    }
    sample_ras(s);
  }

  std::vector<std::int64_t> pids_of_job() const {
    std::vector<std::int64_t> pids;
    for (const SeenProcess& p : job_) pids.push_back(p.look.pid);
    return pids;
  }

  void sample_gpus(Sample& s) {
    const std::string program = trusted_program("nvidia-smi", own_folder_);
    const bool has = !gpus_on_bus(probe_).empty();
    if (program.empty() && has) return note("gpus", Came::unreadable, "no nvidia-smi here", "run it on the host");
    if (program.empty()) return note("gpus", Came::absent, "no GPUs here");
    s.gpus = value_of("gpus", 18, [&] { return read_nvidia_smi(program); });
  }

  /// Ranks before workers.
  std::vector<SeenProcess*> with_stacks() {
    std::vector<SeenProcess*> wanted;
    for (const Role role : {Role::rank, Role::worker}) {
      for (SeenProcess& p : job_) {
        const bool python = contains(p.look.libraries, std::string("python")) && p.look.state != 'Z';
        if (python && p.look.role == role && !is_on(blocked_mounts_, p.folder)) wanted.push_back(&p);
      }
    }
    wanted.resize(std::min(wanted.size(), kMostStacks));
    return wanted;
  }

  void sample_stacks(Sample& s) {
    const std::vector<SeenProcess*> wanted = with_stacks();
    if (wanted.empty()) return note("python stacks", Came::absent, "no Python process of the job here");
    const std::string trusted = trusted_program("py-spy", own_folder_);
    const auto results = gather("python stacks", wanted.size(), {9, 20, 2}, kAllowStacks, [&](std::size_t i) {
      const std::string py_spy = py_spy_for(wanted[i]->look, wanted[i]->uid, trusted);
      if (py_spy.empty()) throw_not_possible("no py-spy that may be run");
      return python_stacks(py_spy, wanted[i]->look.pid);
    });
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!before_.stacks.contains(wanted[i]->look.pid))
        wanted[i]->look.stacks_missing = masked(without_controls(results[i].why));
      if (results[i].value) s.stacks[wanted[i]->look.pid] = *results[i].value;
    }
  }

  void read_native_stacks() {
    const std::string py_spy = trusted_program("py-spy", own_folder_), gdb = trusted_program("gdb", own_folder_);
    std::vector<const SeenProcess*> ranks;
    for (const SeenProcess& p : job_) {
      // To stop a process that waits in the kernel would wait for that.
      if (p.look.role == Role::rank && !waits_for_files(p.look) && p.look.state != 'T') ranks.push_back(&p);
    }
    const auto results = gather(
        "native stacks", ranks.size(), {10, 60, 1}, "install gdb; run as the job's user or root", [&](std::size_t i) {
          const bool python = contains(ranks[i]->look.libraries, std::string("python"));
          const std::string spy = python ? py_spy_for(ranks[i]->look, ranks[i]->uid, py_spy) : "";
          if (spy.empty() && gdb.empty()) throw_not_possible("neither py-spy nor gdb may be run");
          return native_stacks(spy, gdb, ranks[i]->look.pid);
        });
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      auto& kept = after_.stacks[ranks[i]->look.pid];
      if (results[i].value) kept.insert(kept.end(), results[i].value->begin(), results[i].value->end());
    }
  }

  /// Only what is safe whatever the job's ranks on other hosts do.
  void sample_ras(Sample& s) {
    int version = -1;
    std::string address;
    for (const SeenProcess& p : job_) {
      if (p.look.role != Role::rank || p.look.nccl_version < 0) continue;
      version = version < 0 ? p.look.nccl_version : std::min(version, p.look.nccl_version);
      if (address.empty()) address = p.ras_address;
    }
    const RasQuestion question = safe_ras_question(version, {});
    look_.ras.why_not = version < 0 ? "no process of the job here has loaded NCCL" : question.why_not;
    if (version < 0 || question.format == RasFormat::none) {
      return note("ras", version < 0 ? Came::absent : Came::unreadable, look_.ras.why_not);
    }
    s.ras = value_of("ras", 12, [&] {
      if (!address.empty()) setenv("NCCL_RAS_ADDR", address.c_str(), 1);
      return masked(ask_ras(std::chrono::milliseconds(10000), question.format));
    });
    const auto noted = std::ranges::find(look_.collectors, "ras", &LookCollector::name);
    if (s.ras.empty()) look_.ras.why_not = noted->why;
  }

  void request_dumps() {
    constexpr double kLimit = 8;
    std::vector<const SeenProcess*> ranks;
    for (const SeenProcess& p : job_) {
      if (p.look.role == Role::rank && p.look.rank >= 0) ranks.push_back(&p);
    }
    gather("flight recorder request", ranks.size(), {kLimit + 1, 40, 8}, kAllowDumps,
           [&](std::size_t i) { return request_dump(*ranks[i], kLimit); });
  }

  void see_again() {
    std::map<std::int64_t, SeenProcess> again;
    for (SeenProcess& p : see(pids_of_job())) again.emplace(p.look.pid, std::move(p));
    for (SeenProcess& p : job_) {
      const auto found = again.find(p.look.pid);
      add_stacks(p.look, before_.stacks);
      LookProcess later = p.look;
      if (found == again.end() || std::abs(found->second.look.start_s - p.look.start_s) > 0.5) {
        later.state = 'X';
      } else {
        later = std::move(found->second.look);
        add_stacks(later, (after_.stacks.contains(later.pid) ? after_ : before_).stacks);
        copy_role(p.look, later);
        if (later.tracer > 0)
          later.tracer_program = probe_.read(fmt::format("/proc/{}/comm", later.tracer)).value_or("");
        later.sockets =
            attention_sockets(found->second.files, before_.tcp[later.net_namespace], after_.tcp[later.net_namespace]);
      }
      look_.processes.push_back(process_growth(p.look, std::move(later)));
    }
  }

  static void copy_role(const LookProcess& from, LookProcess& to) {
    to.role = from.role;
    to.job = from.job;
    to.rank = from.rank;
    to.rank_source = from.rank_source;
    to.nranks = from.nranks;
    to.local_rank = from.local_rank;
    to.stacks_missing = from.stacks_missing;
  }

  static void add_stacks(LookProcess& look, const Stacks& stacks) {
    const auto found = stacks.find(look.pid);
    if (found == stacks.end()) return;
    for (const LookThread& stack : found->second) {
      // In containers py-spy may see other numbers; Python's main thread is the first.
      const std::int64_t tid = stack.name == "MainThread" ? look.pid : stack.tid;
      const auto at = std::ranges::find(look.threads, tid, &LookThread::tid);
      if (at == look.threads.end()) continue;
      if (!stack.python.empty()) at->python = stack.python;
      if (!stack.native.empty()) at->native = stack.native;
      at->gil = at->gil || stack.gil;
    }
  }

  void report_growth() {
    look_.ports = port_growth(before_.ports, std::move(after_.ports));
    look_.counters = counter_growth(before_.counters, std::move(after_.counters));
    look_.groups = group_growth(before_.groups, std::move(after_.groups));
    const auto kills = std::ranges::find(look_.counters, "kernel/oom_kill", &LookCounter::name);
    if (kills != look_.counters.end()) look_.oom_kills = kills->value;
    look_.gpus = std::move(after_.gpus);
    for (LookGpu& gpu : look_.gpus) {
      const auto found = std::ranges::find(before_.gpus, gpu.index, &LookGpu::index);
      if (found == before_.gpus.end()) continue;
      gpu.busy_percent_before = found->busy_percent;
      gpu.memory_percent_before = found->memory_percent;
      gpu.power_w_before = found->power_w;
    }
    look_.ras.first = std::move(before_.ras);
    look_.ras.second = std::move(after_.ras);
  }

  /// Processes that waited for files in both looks; nothing is opened there any more.
  void report_blocked() {
    look_.blocked = blocked_of(waiting_);
    for (const LookBlocked& one : look_.blocked) {
      blocked_mounts_.insert(blocked_mounts_.end(), one.mounts.begin(), one.mounts.end());
    }
  }

  void read_kernel_log() {
    look_.kernel_log = value_of(
        "kernel log", 5, [&] { return kernel_troubles(probe_); },
        "run as root, or read `dmesg` and `journalctl -k` as a user who may");
  }

  void read_logs() {
    std::vector<OpenLog>& logs = after_.logs;
    std::erase_if(logs, [&](const OpenLog& open) { return is_on(blocked_mounts_, open.log.path); });
    if (logs.empty()) return note("logs", Came::absent, "no process of the job has a log open");
    for (OpenLog& open : logs) {
      const auto same = [&](const OpenLog& one) { return one.log.path == open.log.path; };
      const auto earlier = std::ranges::find_if(before_.logs, same);
      if (earlier != before_.logs.end()) open.log.growth = open.log.nbytes - earlier->log.nbytes;
    }
    const std::size_t each = std::min(kMostLogBytes, options_.log_bytes / logs.size());
    const auto results =
        gather("logs", logs.size(), {2, 10}, kAllowLogs, [&](std::size_t i) { return with_tail(logs[i], each); });
    for (std::size_t i = 0; i < logs.size(); ++i) look_.logs.push_back(results[i].value.value_or(logs[i].log));
  }

  void read_dumps() {
    const std::vector<LookDump> found =
        value_of("flight recorder", 3, [&] { return find_dumps(job_, blocked_mounts_, now_s()); });
    if (found.empty())
      return note("flight recorder", Came::absent, "no dump is there", "--flight-recorder asks for one");
    std::size_t left = kDumpsTogether;
    for (auto& result : gather("flight recorder", found.size(), {2, 10, 1}, "give the dumps to `busbar diagnose`",
                               [&](std::size_t i) { return with_bytes(found[i], kMostDumpBytes); })) {
      if (!result.value) continue;
      const std::size_t nbytes = result.value->base64.size();
      if (nbytes > left) note("flight recorder", Came::unreadable, "too many dumps to send", "give them to diagnose");
      if (nbytes > left) continue;
      left -= nbytes;
      look_.dumps.push_back(std::move(*result.value));
    }
  }

  const Probe& probe_;
  const LookOptions& options_;
  const Clock::time_point deadline_ =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.limit_s));
  const std::string own_folder_ = own_program_folder();
  HostLook look_;
  std::vector<SeenProcess> job_;
  std::vector<LookProcess> waiting_;  ///< for files, in the first look
  std::vector<std::string> served_;
  std::vector<std::string> blocked_mounts_;
  Sample before_, after_;
};

}  // namespace

HostLook take_look(const Probe& probe, const LookOptions& options) { return Look(probe, options).take(); }

}  // namespace busbar
