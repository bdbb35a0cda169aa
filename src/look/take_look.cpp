
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/error_counters.h"
#include "common/machine/machine_facts.h"
#include "common/processes/child.h"
#include "common/watch/ras.h"
#include "look/apart.h"
#include "look/look_parts.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace busbar {
namespace {

using Clock = std::chrono::steady_clock;
using Role = LookProcess::Role;
using Came = LookCollector::Outcome;

// This process stays below 64 MiB.
constexpr std::size_t kMostLogBytes = 4 << 20;   ///< of one log
constexpr std::size_t kMostDumpBytes = 3 << 20;  ///< of one dump
constexpr std::size_t kDumpsTogether = 5 << 20;  ///< as text
constexpr std::size_t kMostStacks = 128;

constexpr std::string_view kAllowLogs = "run as the job's user, or as root";

Clock::duration in_s(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}
double seconds_to(Clock::time_point end) { return std::chrono::duration<double>(end - Clock::now()).count(); }

bool is_python(const LookProcess& p) { return contains(p.libraries, std::string("python")); }

class Look {
 public:
  Look(const Probe& probe, const LookOptions& options) : probe_(probe), options_(options) {}

  HostLook take();

 private:
  /// What is sampled in both looks, besides the processes and what is the host's.
  struct Sample {
    std::map<std::uint64_t, std::string> tcp;                ///< the tables of each network namespace
    std::map<std::int64_t, std::vector<LookThread>> stacks;  ///< by process
    std::vector<OpenLog> logs;
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
    constexpr double kLeast = 0.5;
    limits.all_s = std::min(limits.all_s, seconds_to(deadline_));
    limits.each_s = std::min(limits.each_s, std::max(kLeast, limits.all_s));
    auto results = records_apart(items, limits, work);
    for (const auto& [value, why, timed_out] : results)
      note(name, value ? Came::ok : timed_out ? Came::timed_out : Came::unreadable, why, allow);
    return results;
  }

  template <class Work>
  auto value_of(const std::string& name, double limit_s, const Work& work, std::string_view allow = {}) {
    auto results = gather(name, 1, {limit_s, limit_s, 1}, allow, [&](std::size_t) { return work(); });
    return std::move(results[0].value).value_or(decltype(work()){});
  }

  /// Reads each of these processes, in pieces, because a child for each of a thousand would take longer than their
  /// reading; those of a piece that did not answer once more, each alone. Null: it does not answer even so.
  template <class Read>
  std::vector<std::optional<SeenProcess>> read_all(const std::vector<std::int64_t>& pids, const Read& read) {
    constexpr std::size_t kPiece = 16;
    std::vector<std::optional<SeenProcess>> all(pids.size());
    const auto pieces = records_apart((pids.size() + kPiece - 1) / kPiece, {4, std::min(20.0, options_.limit_s / 3)},
                                      [&](std::size_t piece) {
                                        std::vector<SeenProcess> some;
                                        while (some.size() < kPiece && piece * kPiece + some.size() < pids.size())
                                          some.push_back(read(piece * kPiece + some.size()));
                                        return some;
                                      });
    std::vector<std::size_t> silent;
    for (std::size_t i = 0; i < pids.size(); ++i) {
      const auto& piece = pieces[i / kPiece].value;
      if (piece) all[i] = (*piece)[i % kPiece];
      if (!piece) silent.push_back(i);
    }
    const auto alone = records_apart(silent.size(), {2, std::min(15.0, options_.limit_s / 4)},
                                     [&](std::size_t i) { return read(silent[i]); });
    note(kProcesses, Came::ok);
    for (std::size_t i = 0; i < silent.size(); ++i) {
      all[silent[i]] = alone[i].value;
      if (!alone[i].value) note(kProcesses, Came::timed_out, fmt::format("/proc/{} does not answer", pids[silent[i]]));
    }
    return all;
  }

  void find_processes() {
    const Clock::time_point begin = Clock::now();
    const std::vector<std::int64_t> pids = process_ids(probe_);
    std::vector<SeenProcess> all;
    for (auto& p : read_all(pids, [&](std::size_t i) { return read_process(probe_, pids[i], options_.filter); })) {
      if (!p || p->look.program.empty()) continue;
      p->look.start_s = look_.boot_s + p->since_boot_s;
      all.push_back(std::move(*p));
    }
    seen_ = begin + (Clock::now() - begin) / 2;
    std::vector<std::string> users;
    std::size_t hidden = 0;
    for (const SeenProcess& p : all) {
      if (!p.kernel_thread && waits_for_files(p.look)) waiting_.push_back(p.look);
      if (p.kernel_thread || !p.environ_hidden || p.look.state == 'Z' || geteuid() == 0) continue;
      add_once(users, p.look.user);
      ++hidden;
    }
    note("environment", hidden == 0 ? Came::ok : Came::unreadable,
         fmt::format("/proc/PID/environ: permission denied for {} of {} processes", hidden, all.size()),
         "run as root, or as user " + joined_words(users, ", "));
    job_ = job_processes(std::move(all), options_.filter, getpid());
    served_ = served_mounts(probe_);
    // Mounts on which nothing is opened. A short wait for a local disk is no trouble.
    for (const LookBlocked& one : blocked_of(waiting_)) {
      std::ranges::copy_if(one.mounts, std::back_inserter(blocked_mounts_),
                           [&](const std::string& mount) { return contains(served_, mount); });
    }
  }

  std::vector<LookBlocked> blocked_of(const std::vector<LookProcess>& processes) {
    std::vector<LookBlocked> blocked;
    if (seconds_to(deadline_) <= 0) return blocked;  // else one that was not asked again would count
    const auto results = gather("file systems", processes.size(), {2, 6}, {}, [&](std::size_t i) {
      const SeenProcess now = read_process(probe_, processes[i].pid, options_.filter);
      return waits_for_files(now.look) ? blocked_process(probe_, now.look, served_) : LookBlocked();
    });
    for (std::size_t i = 0; i < results.size(); ++i) {
      const LookProcess& p = processes[i];
      blocked.push_back(results[i].value.value_or(LookBlocked{p.pid, p.program, p.wchan, {}}));
    }
    std::erase_if(blocked, [](const LookBlocked& one) { return one.pid == 0; });
    return blocked;
  }

  void sample(Sample& s, HostLook& host) {
    constexpr double kLimit = 5;
    host.ports = value_of("ports", kLimit, [&] { return read_ports(probe_); });
    host.counters = value_of("counters", kLimit, [&] { return read_host_counters(probe_); });
    host.groups = value_of("control groups", kLimit, [&] { return read_groups(probe_, pids_of_job()); });
    for (const SeenProcess& p : job_) {
      if (p.look.net_namespace == 0 || s.tcp.contains(p.look.net_namespace)) continue;
      s.tcp[p.look.net_namespace] = value_of("sockets", 3, [&] {
        const std::string folder = fmt::format("/proc/{}/net/", p.look.pid);
        const auto table = [&](const char* name) { return probe_.read(folder + name, kLongFile).value_or(""); };
        return table("tcp") + "\n" + table("tcp6");
      });
    }
    sample_gpus(host.gpus);
    sample_stacks(s, with_stacks());
    const double now = now_s();
    const std::vector<OpenLog> logs = open_logs(job_, blocked_mounts_);
    for (auto& result :
         gather("logs", logs.size(), {1, 5}, kAllowLogs, [&](std::size_t i) { return with_size(logs[i], now); })) {
      if (result.value) s.logs.push_back(std::move(*result.value));
    }
    sample_ras(host.ras);
  }

  std::vector<const SeenProcess*> ranks() const {
    std::vector<const SeenProcess*> found = mapped(job_, [](const SeenProcess& p) { return &p; });
    std::erase_if(found, [](const SeenProcess* p) { return p->look.role != Role::rank; });
    return found;
  }

  std::vector<std::int64_t> pids_of_job() const {
    return mapped(job_, [](const SeenProcess& p) { return p.look.pid; });
  }

  void sample_gpus(std::vector<LookGpu>& gpus) {
    const std::string program = trusted_program("nvidia-smi", own_folder_);
    const bool has = !gpus_on_bus(probe_).empty();
    if (program.empty() && has) return note("gpus", Came::unreadable, "no nvidia-smi here", "run it on the host");
    if (program.empty()) return note("gpus", Came::absent, "no GPUs here");
    gpus = value_of("gpus", 18, [&] { return read_nvidia_smi(program); });
  }

  /// Ranks before workers.
  std::vector<SeenProcess*> with_stacks() {
    std::vector<SeenProcess*> wanted;
    for (const Role role : {Role::rank, Role::worker}) {
      for (SeenProcess& p : job_) {
        if (!is_python(p.look) || p.look.state == 'Z' || p.look.role != role) continue;
        if (!is_on(blocked_mounts_, p.folder) && wanted.size() < kMostStacks) {
          wanted.push_back(&p);
          continue;
        }
        p.look.stacks_missing = wanted.size() < kMostStacks ? "a process waits for the file system of its folder"
                                                            : "of the host's processes only some were read";
        note("python stacks", Came::unreadable, p.look.stacks_missing);
      }
    }
    if (wanted.empty()) note("python stacks", Came::absent, "no Python process of the job here");
    return wanted;
  }

  void sample_stacks(Sample& s, const std::vector<SeenProcess*>& wanted) {
    const std::string trusted = trusted_program("py-spy", own_folder_);
    const auto results = gather("python stacks", wanted.size(), {9, 20, 2},
                                "`pip install py-spy` into the job's environment, or as root into /usr/local/bin; to "
                                "read another process needs "
                                "its user, or CAP_SYS_PTRACE in containers and with kernel.yama.ptrace_scope=1",
                                [&](std::size_t i) {
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

  /// A rank that makes steps without a pause may stand at one line twice by chance, but hardly five times.
  void sample_spinning() {
    constexpr std::size_t kMost = 16;
    const auto place = [](const Sample& s, const LookProcess& look) {
      LookProcess bare = look;
      const auto found = s.stacks.find(look.pid);
      if (found != s.stacks.end()) add_stacks(bare, found->second);
      return bare.threads.empty() ? std::vector<std::string>() : bare.threads.front().python;
    };
    for (int more = 0; more < 3; ++more) {
      std::vector<SeenProcess*> still;
      for (SeenProcess& p : job_) {
        if (p.look.role != Role::rank || p.look.state != 'R' || still.size() >= kMost) continue;
        const std::vector<std::string> first = place(before_, p.look);
        if (!first.empty() && first == place(after_, p.look)) still.push_back(&p);
      }
      if (still.empty()) return;
      sample_stacks(after_, still);
    }
  }

  void read_native_stacks() {
    const std::string py_spy = trusted_program("py-spy", own_folder_), gdb = trusted_program("gdb", own_folder_);
    const std::vector<const SeenProcess*> all = ranks();
    const auto stacks_of = [&](std::size_t i) {
      const LookProcess look = read_again(probe_, *all[i]).look;
      const std::string spy = is_python(look) ? py_spy_for(look, all[i]->uid, py_spy) : "";
      if (spy.empty() && gdb.empty()) throw_not_possible("neither py-spy nor gdb may be run");
      if (waits_for_files(look) || look.state == 'T') throw_not_possible("what waits in the kernel is not stopped");
      return native_stacks(spy, gdb, look.pid);
    };
    const auto results =
        gather("native stacks", all.size(), {10, 60, 1}, "install gdb; run as the job's user or root", stacks_of);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!results[i].value) continue;
      auto& kept = after_.stacks[all[i]->look.pid];
      kept.insert(kept.end(), results[i].value->begin(), results[i].value->end());
    }
  }

  /// Only what is safe whatever the job's ranks on other hosts do.
  void sample_ras(LookRas& ras) {
    int version = -1;
    std::string address;
    for (const SeenProcess* p : ranks()) {
      const int loaded = p->look.nccl_version;
      if (loaded >= 0) version = version < 0 ? loaded : std::min(version, loaded);
      if (address.empty()) address = p->ras_address;
    }
    const RasQuestion question = safe_ras_question(version, {});
    ras.why_not = version < 0 ? "no process of the job here has loaded NCCL" : question.why_not;
    if (version < 0 || question.format == RasFormat::none)
      return note("ras", version < 0 ? Came::absent : Came::unreadable, ras.why_not);
    if (!asks_ras(job_)) return note("ras", Came::absent, "asked on the hosts of the first and the last rank");
    ras.second = value_of("ras", 12, [&] {
      if (!address.empty()) setenv("NCCL_RAS_ADDR", address.c_str(), 1);
      return masked(ask_ras(std::chrono::milliseconds(10000), question.format));
    });
    if (ras.second.empty()) ras.why_not = std::ranges::find(look_.collectors, "ras", &LookCollector::name)->why;
  }

  void request_dumps() {
    constexpr double kLimit = 8;
    const std::vector<const SeenProcess*> all = ranks();
    gather("flight recorder request", all.size(), {kLimit + 1, 40, 8},
           "start the job with TORCH_FR_BUFFER_SIZE=2000 and TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/tmp/fr_",
           [&](std::size_t i) { return request_dump(*all[i], kLimit); });
  }

  void see_again() {
    const Clock::time_point begin = Clock::now();
    const auto again = read_all(pids_of_job(), [&](std::size_t i) { return read_again(probe_, job_[i]); });
    look_.look_s = std::chrono::duration<double>(begin + (Clock::now() - begin) / 2 - seen_).count();
    for (std::size_t i = 0; i < job_.size(); ++i) {
      LookProcess& first = job_[i].look;
      LookProcess later = again[i].value_or(job_[i]).look;
      if (!again[i]) {  // which is no proof that it is gone
        later.state = '?';
        later.cpu_s = later.children_cpu_s = later.bytes_read = later.bytes_written = -1;
        for (LookThread& thread : later.threads) thread.cpu_s = thread.slept = thread.moved = -1;
      }
      add_stacks(first, before_.stacks[first.pid]);
      if (options_.native_stacks) {  // to be stopped for them counts as a sleep
        for (LookThread& thread : later.threads) thread.slept = -1;
      }
      for (Sample* sample : {&before_, &after_}) add_stacks(later, sample->stacks[first.pid]);
      if (again[i] && later.state != 'X') {
        const std::uint64_t network = later.net_namespace;
        later.sockets = attention_sockets(again[i]->files, before_.tcp[network], after_.tcp[network]);
      }
      look_.processes.push_back(process_growth(first, std::move(later)));
    }
  }

  void read_logs() {
    std::vector<OpenLog>& logs = after_.logs;
    const auto is_blocked = [&](const OpenLog& open) { return is_on(blocked_mounts_, open.log.path); };
    if (std::erase_if(logs, is_blocked) > 0)
      note("logs", Came::unreadable,
           "not opened on " + joined_words(blocked_mounts_, ", ") + ": a process waits there");
    if (logs.empty()) return note("logs", Came::absent, "no process of the job has a log open");
    for (OpenLog& open : logs) {
      const auto path_of = [](const OpenLog& one) { return one.log.path; };
      const auto earlier = std::ranges::find(before_.logs, open.log.path, path_of);
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
    constexpr std::string_view kAllow = "give the dumps to `busbar diagnose`";
    std::size_t left = kDumpsTogether;
    const Clock::time_point end = Clock::now() + in_s(10);
    for (const LookDump& one : found) {  // one by one: all together are too many for the memory
      const auto read = [&](std::size_t) { return with_bytes(one, kMostDumpBytes); };
      auto dump = std::move(gather("flight recorder", 1, {2, seconds_to(end), 1}, kAllow, read)[0].value);
      if (!dump) continue;
      const std::size_t nbytes = dump->base64.size();
      if (nbytes > left) note("flight recorder", Came::unreadable, "too many dumps to send", kAllow);
      if (nbytes > left) continue;
      left -= nbytes;
      look_.dumps.push_back(std::move(*dump));
    }
  }

  const Probe& probe_;
  const LookOptions& options_;
  const Clock::time_point deadline_ = Clock::now() + in_s(options_.apart_s + options_.limit_s);
  const std::string own_folder_ = program_beside("busbar-look").parent_path().string();
  HostLook earlier_, look_;
  Clock::time_point seen_;  ///< when the processes were read
  std::vector<SeenProcess> job_;
  std::vector<LookProcess> waiting_;  ///< for files, in the first look
  std::vector<std::string> served_;
  std::vector<std::string> blocked_mounts_;
  Sample before_, after_;
};

HostLook Look::take() {
  look_ = this_host(probe_);
  find_processes();
  const Clock::time_point second = Clock::now() + in_s(options_.apart_s);
  sample(before_, earlier_);
  poll(nullptr, 0, std::max(0, static_cast<int>(seconds_to(second) * 1e3)));
  sample(after_, look_);
  sample_spinning();
  if (options_.flight_recorder) request_dumps();
  if (options_.native_stacks) read_native_stacks();
  see_again();  // after everything that could have disturbed them
  host_growth(earlier_, look_);
  const auto kills = std::ranges::find(look_.counters, kOomKills, &LookCounter::name);
  if (kills != look_.counters.end()) look_.oom_kills = kills->value;
  look_.ras.first = std::move(earlier_.ras.second);
  // Processes that waited for files in both looks; nothing is opened there any more.
  look_.blocked = blocked_of(waiting_);
  for (const LookBlocked& one : look_.blocked) std::ranges::copy(one.mounts, std::back_inserter(blocked_mounts_));
  look_.kernel_log = value_of(
      "kernel log", 5, [&] { return kernel_troubles(probe_); },
      "run as root, or read `dmesg` and `journalctl -k` as a user who may");
  read_logs();
  read_dumps();
  return std::move(look_);
}

}  // namespace

HostLook take_look(const Probe& probe, const LookOptions& options) { return Look(probe, options).take(); }

}  // namespace busbar
