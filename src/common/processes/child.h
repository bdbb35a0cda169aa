#pragma once

#include "common/processes/launcher.h"

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbar {

using EnvironmentSettings = std::vector<std::pair<std::string, std::string>>;

struct ChildOptions {
  EnvironmentSettings environment = {};  ///< in addition to ours; the last of a name wins
  double timeout_s = 60;                 ///< then SIGTERM to its process group, SIGKILL after grace_s
  double grace_s = 3;                    ///< time to end cleanly: mpirun passes SIGTERM on to ranks on other hosts
  bool takes_signals = true;           ///< SIGINT, SIGTERM and SIGHUP end it (Interrupted); false: others see to these
  std::size_t output_limit = 4 << 20;  ///< [bytes] kept of stdout and of stderr each; the rest is read and dropped
  bool forward_stderr = false;         ///< also write its stderr to ours as it comes
};

struct ChildResult {
  int exit_code = -1;  ///< -1: ended by a signal
  int signal = 0;      ///< the signal that ended it; 0: none
  bool timed_out = false;
  bool cut = false;  ///< output_limit was reached
  std::string out;
  std::string err;

  bool good() const { return exit_code == 0 && !timed_out; }
};

inline constexpr const char* kNothingKept = "nothing was kept; start again";

/// SIGINT, SIGTERM or SIGHUP reached us while a child ran; the child is dead. Let it unwind, which removes temporary
/// files, then end with end_by_signal(). what(): what is on disk and how to resume.
class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(int signal, const std::string& kept = kNothingKept)
      : std::runtime_error(kept), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

/// "busbar: interrupted (SIGTERM): KEPT\n", the one wording of all commands.
std::string interrupted_line(int signal, const std::string& kept);

/// SIGINT, SIGTERM and SIGHUP, except those that this process ignores because of nohup or a shell's `&`.
sigset_t interrupts();

/// This thread's signal mask, changed by pthread_sigmask(`how`) while it lives.
class SignalMask {
 public:
  SignalMask(int how, const sigset_t& set) { pthread_sigmask(how, &set, &before_); }
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;
  ~SignalMask() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

/// While it lives, SIGINT, SIGTERM and SIGHUP wait for the next run_child, or for its end: nothing between two children
/// stays half done. Only for the main thread.
struct InterruptsHeld : SignalMask {
  InterruptsHeld() : SignalMask(SIG_BLOCK, interrupts()) {}
};

/// Ends this process by the signal, so that the caller's shell sees what happened.
[[noreturn]] void end_by_signal(int signal);

/// Runs argv (argv[0] is looked up in PATH) in its own process group, without stdin, and waits for it. Nothing of its
/// group outlives the call or this process. The child does not get the variables of our own launcher (OMPI_*, PMIX_*,
/// ...), with which it would take itself for a rank of this job. Throws Error(not_possible) if it cannot be started,
/// and Interrupted. Only for the main thread.
ChildResult run_child(const std::vector<std::string>& argv, const ChildOptions& options);

/// The end of a child as text: "exit code 5", "signal 9 (Killed)", "no end after 20 s".
std::string describe_end(const ChildResult& result, double timeout_s);

/// The environment of a launch from here, "NAME=value": `current`, if `launched` without what a launcher sets for its
/// ranks, plus `settings`.
std::vector<std::string> child_environment(std::span<const char* const> current, bool launched,
                                           const EnvironmentSettings& settings);

/// The executable of this build called `name`, next to this one, with the NAME_SUFFIX that all of them have. `self`:
/// this executable, busbar; empty if not known.
std::filesystem::path program_beside(const std::filesystem::path& self, std::string_view name);
std::filesystem::path program_beside(std::string_view name);

/// Runs `work` before MPI is up, if every rank finds the same: rank 0 reports, the others leave with 0.
int run_before_session(const Launch& launch, const std::function<int()>& work);

/// The same for work that runs children. If an interrupt ended one (Interrupted), the work is unwound first, which
/// removes its files, and then this process ends by the same signal.
int run_with_children(const Launch& launch, const std::function<int()>& work);

}  // namespace busbar
