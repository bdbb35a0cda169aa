#include "common/processes/child.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/say.h"
#include "common/base/text.h"
#include "common/machine/job_interface.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

namespace busbar {
namespace {

using Time = std::chrono::steady_clock::time_point;

using Fd = Socket;  // here of a pipe, a file or signals

struct Pipe {
  Fd read, write;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw_not_possible(fmt::format("no pipe to a child: {}", std::strerror(errno)));
  return {Fd(ends[0]), Fd(ends[1])};
}

/// Turns the signals that would end us into readable events while it lives; no handler, so no global.
class ReadableInterrupts {
 public:
  ReadableInterrupts() {
    const sigset_t set = interrupts();
    fd_ = Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  int fd() const { return fd_.fd(); }
  /// The signal that came, or 0.
  int taken() const {
    signalfd_siginfo info{};
    return read(fd_.fd(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  InterruptsHeld held_;
  Fd fd_;
};

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> raw;
  for (std::string& word : words) raw.push_back(word.data());
  raw.push_back(nullptr);
  return raw;
}

/// A started child. Its process group never outlives this object.
class Child {
 public:
  Child(std::vector<std::string> argv, std::vector<std::string> environment) {
    Pipe out = make_pipe(), err = make_pipe(), failed = make_pipe();
    const Fd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
    const std::vector<char*> raw_argv = pointers(argv), raw_environment = pointers(environment);
    const pid_t parent = getpid();
    const sigset_t unheld = interrupts();
    pid_ = fork();
    if (pid_ < 0) throw_not_possible(fmt::format("cannot fork: {}", std::strerror(errno)));
    if (pid_ == 0) {
      // Between fork and exec of a process with threads, only async-signal-safe calls are allowed.
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != parent) _exit(127);
      dup2(nothing.fd(), STDIN_FILENO);
      dup2(out.write.fd(), STDOUT_FILENO);
      dup2(err.write.fd(), STDERR_FILENO);
      pthread_sigmask(SIG_UNBLOCK, &unheld, nullptr);
      execvpe(raw_argv[0], raw_argv.data(), raw_environment.data());
      const int why = errno;
      [[maybe_unused]] const ssize_t written = write(failed.write.fd(), &why, sizeof why);
      _exit(127);
    }
    setpgid(pid_, pid_);  // also here: a kill right after the start must find the group
    failed.write.close();
    int why = 0;
    if (read(failed.read.fd(), &why, sizeof why) == sizeof why) {
      waitpid(pid_, nullptr, 0);
      pid_ = -1;
      throw_not_possible(fmt::format("cannot execute {}: {}", in_quotes(argv[0]), std::strerror(why)));
    }
    out_ = std::move(out.read);
    err_ = std::move(err.read);
    for (const Fd* fd : {&out_, &err_}) fcntl(fd->fd(), F_SETFL, O_NONBLOCK);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ < 0) return;
    signal_group(SIGKILL);
    // A process that waits in the kernel, for a file system, does not end: it is not waited for.
    for (int i = 0; i < 10 && waitpid(pid_, nullptr, WNOHANG) == 0; ++i) poll(nullptr, 0, 10);
  }

  int out() const { return out_.fd(); }
  int err() const { return err_.fd(); }
  void signal_group(int signal) const { kill(-pid_, signal); }

  /// The wait status once it has ended; then it also kills the rest of the group, before the id can be used again.
  std::optional<int> ended() {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return {};
    signal_group(SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
  Fd out_, err_;
};

/// Reads what is available; true at the end of the stream.
bool drain(int fd, std::string& kept, const ChildOptions& options, bool forward, bool& cut) {
  std::array<char, 16384> chunk{};
  while (true) {
    const ssize_t n = read(fd, chunk.data(), chunk.size());
    if (n == 0) return true;
    if (n < 0) return errno != EAGAIN && errno != EINTR;
    const std::size_t room = options.output_limit - std::min(options.output_limit, kept.size());
    const std::size_t take = std::min(room, static_cast<std::size_t>(n));
    kept.append(chunk.data(), take);
    cut = cut || take < static_cast<std::size_t>(n);
    if (forward) [[maybe_unused]]
      const ssize_t written = write(STDERR_FILENO, chunk.data(), static_cast<std::size_t>(n));
  }
}

Time after(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

/// What Open MPI's mpirun, PRRTE, Hydra and torchrun set for their ranks, and what names a place in a job without MPI;
/// the user's own OMPI_MCA_... and OMPI_ALLOW_... stay.
bool set_by_launcher(std::string_view name) {
  static const std::vector<std::string_view> kBegin = split_text(
      "OMPI_COMM_WORLD_ OMPI_APP_CTX_ OMPI_COMMAND OMPI_ARGV OMPI_FILE_LOCATION OMPI_FIRST_RANKS "
      "OMPI_NUM_APP_CTX OMPI_UNIVERSE_SIZE OMPI_MCA_ess OMPI_MCA_orte_ OMPI_MCA_pmix OMPI_MCA_initial_wdir "
      "OMPI_MCA_mpi_oversubscribe OMPI_MCA_shmem_RUNTIME_QUERY_hint PMIX_ PMI_ HYDI_ MPI_LOCALNRANKS "
      "MPI_LOCALRANKID PRTE_LAUNCHED PRTE_MCA_prte_ess TORCHELASTIC_ GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK "
      "ROLE_WORLD_SIZE ROLE_NAME",
      ' ');
  static const std::vector<std::string_view> kWhole =
      split_text("RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT JOB_COMPLETION_INDEX", ' ');
  return contains(kWhole, name) ||
         std::ranges::any_of(kBegin, [&](std::string_view begin) { return name.starts_with(begin); });
}

}  // namespace

std::string interrupted_line(int signal, const std::string& kept) {
  return fmt::format("busbar: interrupted (SIG{}): {}\n", sigabbrev_np(signal), kept);
}

// A blocked signal comes although it is ignored: code that waits for it must leave it out.
sigset_t interrupts() {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction how {};
    if (sigaction(s, nullptr, &how) != 0 || how.sa_handler != SIG_IGN) sigaddset(&set, s);
  }
  return set;
}

void end_by_signal(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal);
  _exit(128 + signal);
}

std::string describe_end(const ChildResult& result, double timeout_s) {
  if (result.timed_out) return fmt::format("no end after {:g} s", timeout_s);
  if (result.signal != 0) return fmt::format("signal {} ({})", result.signal, strsignal(result.signal));
  return fmt::format("exit code {}", result.exit_code);
}

ChildResult run_child(const std::vector<std::string>& argv, const ChildOptions& options) {
  if (argv.empty()) throw_bad_config("an empty command cannot be run");
  std::vector<const char*> current;
  for (char** e = environ; *e != nullptr; ++e) current.push_back(*e);
  std::optional<ReadableInterrupts> signals;
  if (options.takes_signals) signals.emplace();
  Child child(argv, child_environment(current, detect_launch().launched(), options.environment));

  ChildResult result;
  int interrupted = 0;
  bool out_open = true, err_open = true, killed = false;
  Time deadline = after(options.timeout_s);
  std::optional<int> status;
  while (!status) {
    // The end itself wakes nobody if a grandchild keeps the pipes open, so check now and then.
    std::array<pollfd, 3> events{{{signals ? signals->fd() : -1, POLLIN, 0},
                                  {out_open ? child.out() : -1, POLLIN, 0},
                                  {err_open ? child.err() : -1, POLLIN, 0}}};
    poll(events.data(), events.size(), 10);
    if (out_open) out_open = !drain(child.out(), result.out, options, false, result.cut);
    if (err_open) err_open = !drain(child.err(), result.err, options, options.forward_stderr, result.cut);
    const int signal = signals ? signals->taken() : 0;
    const bool late = std::chrono::steady_clock::now() >= deadline;
    if (killed) {
      if (late) child.signal_group(SIGKILL);
    } else if (signal != 0 || late) {
      interrupted = signal;
      result.timed_out = signal == 0;
      killed = true;
      child.signal_group(SIGTERM);
      deadline = after(options.grace_s);
    }
    status = child.ended();
    // One that waits in the kernel, for a file system, outlives SIGKILL. Who was interrupted has no time to see it end.
    const auto last_moment = std::chrono::milliseconds(interrupted != 0 ? 100 : 2000);
    if (!status && killed && std::chrono::steady_clock::now() >= deadline + last_moment) break;
  }
  drain(child.out(), result.out, options, false, result.cut);
  drain(child.err(), result.err, options, options.forward_stderr, result.cut);
  if (interrupted != 0) throw Interrupted(interrupted);
  if (!status) {
    result.signal = SIGKILL;
    return result;
  }
  if (WIFEXITED(*status)) result.exit_code = WEXITSTATUS(*status);
  if (WIFSIGNALED(*status)) result.signal = WTERMSIG(*status);
  return result;
}

std::vector<std::string> child_environment(std::span<const char* const> current, bool launched,
                                           const EnvironmentSettings& settings) {
  std::vector<std::string> result;
  for (const std::string_view entry : current) {
    const std::string_view name = entry.substr(0, entry.find('='));
    const bool replaced = std::ranges::any_of(settings, [&](const auto& s) { return s.first == name; });
    if (replaced || (launched && set_by_launcher(name))) continue;
    result.emplace_back(entry);
  }
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const bool later = std::any_of(settings.begin() + static_cast<std::ptrdiff_t>(i) + 1, settings.end(),
                                   [&](const auto& s) { return s.first == settings[i].first; });
    if (!later) result.push_back(settings[i].first + "=" + settings[i].second);
  }
  return result;
}

namespace fs = std::filesystem;

fs::path program_beside(const fs::path& self, std::string_view name) {
  constexpr std::string_view kBusbar = "busbar";
  const std::string own = self.filename().string();
  const std::string suffix = own.starts_with(kBusbar) ? own.substr(kBusbar.size()) : "";
  return self.parent_path() / (std::string(name) + suffix);
}

fs::path program_beside(std::string_view name) {
  std::error_code unknown;
  return program_beside(fs::read_symlink("/proc/self/exe", unknown), name);
}

int run_before_session(const Launch& launch, const std::function<int()>& work) {
  // Before MPI is up, the launcher's rank decides who reports; what all ranks find alike is reported once.
  const bool is_root = launch.rank <= 0;
  try {
    return work();
  } catch (const Error& e) {
    // The silent ranks leave with 0: a launcher ends the job at the first failure, which must not come before the
    // message.
    if (!is_root) return static_cast<int>(ExitCode::good);
    say("error: {}", e.what());
    return static_cast<int>(e.code());
  } catch (const std::exception& e) {
    say("error: {}", e.what());
    return static_cast<int>(ExitCode::internal);
  }
}

int run_with_children(const Launch& launch, const std::function<int()>& work) {
  int interrupted = 0;
  const int code = run_before_session(launch, [&] {
    try {
      return work();
    } catch (const Interrupted& e) {
      interrupted = e.signal();
      write_stderr(interrupted_line(e.signal(), e.what()));
      return 0;
    }
  });
  if (interrupted != 0) end_by_signal(interrupted);
  return code;
}

}  // namespace busbar
