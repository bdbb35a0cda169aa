#include "common/base/error.h"
#include "common/base/say.h"
#include "common/base/text.h"
#include "common/processes/child.h"
#include "common/processes/launcher.h"
#include "common/processes/sockets/hello.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace busbar {
namespace {

namespace fs = std::filesystem;

/// This program's command line with one rank per process: the last value of an option wins, however the user wrote the
/// first.
std::vector<std::string> with_one_rank(std::vector<std::string> args, std::vector<std::string> more = {}) {
  args.insert(args.end(), {"-t", "1", "-g", "1"});
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::vector<std::string> own_command(int argc, char** argv) {
  std::vector<std::string> args(argv, argv + argc);
  std::error_code unknown;
  if (const fs::path self = fs::read_symlink("/proc/self/exe", unknown); !unknown) args[0] = self;
  return args;
}

/// Becomes `command`. Throws Error(not_possible).
[[noreturn]] void become(std::vector<std::string> command) {
  std::vector<char*> raw;
  for (std::string& word : command) raw.push_back(word.data());
  raw.push_back(nullptr);
  execv(raw[0], raw.data());
  throw_not_possible(fmt::format("cannot execute {}: {}", command[0], std::strerror(errno)));
}

/// The file of the MPI library in this process; empty if it is linked statically.
fs::path mpi_library() {
  fs::path found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        const fs::path file = info->dlpi_name;
        const std::string name = file.filename();
        if (!name.starts_with("libmpi.so") && !name.starts_with("libmpich.so")) return 0;
        *static_cast<fs::path*>(out) = file;
        return 1;
      },
      &found);
  return found;
}

bool is_executable(const fs::path& file) { return access(file.c_str(), X_OK) == 0; }

/// The mpirun next to the MPI library, at most three folders up (lib/x86_64-linux-gnu/openmpi), else the first in PATH:
/// that of another MPI would start ranks that do not see each other.
fs::path find_mpirun() {
  // Without links, and never in the root: mpirun takes the folder above its own as the prefix of its installation, and
  // refuses "/". /bin/mpirun would give that if /bin is a link to /usr/bin.
  std::error_code unknown;
  const fs::path library = mpi_library();
  const bool is_mpich = library.filename().string().starts_with("libmpich.so");
  fs::path dir = fs::canonical(library.parent_path(), unknown);
  for (int i = 0; i < 4 && dir.has_relative_path(); ++i, dir = dir.parent_path()) {
    for (const char* file : {is_mpich ? "bin/mpirun.mpich" : "bin/mpirun.openmpi", "bin/mpirun"})
      if (is_executable(dir / file)) return dir / file;
  }
  const char* path = std::getenv("PATH");
  for (const std::string_view folder : split_text(path != nullptr ? path : "", ':')) {
    dir = fs::canonical(folder, unknown);
    if (!dir.empty() && is_executable(dir / "mpirun")) return dir / "mpirun";
  }
  return {};
}

/// A TCP port that is free now, and most likely the next ones.
int free_port() {
  const Socket probe = listen_everywhere(0);
  if (!probe.open()) throw_not_possible(fmt::format("no port to listen on: {}", std::strerror(errno)));
  return port_of(local_address(probe.fd()));
}

[[noreturn]] void become_rank(int rank, const std::vector<std::string>& command) {
  for (const char* name : {"RANK", "LOCAL_RANK"}) setenv(name, std::to_string(rank).c_str(), 1);
  become(command);
}

}  // namespace

std::vector<std::string> mpirun_command(const std::string& mpirun, std::string_view library, int nranks, bool as_root,
                                        const std::vector<std::string>& args) {
  std::vector<std::string> command{mpirun, "-n", std::to_string(nranks)};
  const bool asks_leave = library.starts_with("Open MPI");
  if (asks_leave) command.push_back("--oversubscribe");
  if (asks_leave && as_root) command.push_back("--allow-run-as-root");
  const std::vector<std::string> each = with_one_rank(args);
  command.insert(command.end(), each.begin(), each.end());
  return command;
}

void relaunch_under_mpirun(int nranks, std::string_view library, int argc, char** argv) {
  constexpr const char* kGuard = "BUSBAR_STARTED_ITSELF";
  if (std::getenv(kGuard) != nullptr) {
    throw_not_possible(
        fmt::format("mpirun started this program without a rank: it belongs to another MPI; start `mpirun -n {} {}` "
                    "of the right MPI without -g and -t",
                    nranks, argv[0]));
  }
  const fs::path mpirun = find_mpirun();
  if (mpirun.empty()) {
    throw_not_possible(
        fmt::format("-g and -t without a launcher need mpirun for {} ranks, and there is none next to the MPI "
                    "library or in PATH; install it, or start one rank per process",
                    nranks));
  }
  const std::vector<std::string> command =
      mpirun_command(mpirun, library, nranks, geteuid() == 0, own_command(argc, argv));
  say("no launcher, so starting {} ranks: {}", nranks, fmt::join(command, " "));
  std::fflush(stderr);
  setenv(kGuard, "1", 1);
  become(command);
}

void start_own_ranks(int nranks, int argc, char** argv) {
  // --launcher env: whatever else the environment holds, these variables count.
  const std::vector<std::string> command = with_one_rank(own_command(argc, argv), {"--launcher", "env"});
  const EnvironmentSettings job{{"WORLD_SIZE", std::to_string(nranks)},
                                {"LOCAL_WORLD_SIZE", std::to_string(nranks)},
                                {"MASTER_ADDR", "127.0.0.1"},
                                {"MASTER_PORT", std::to_string(free_port())}};
  for (const auto& [name, value] : job) setenv(name.c_str(), value.c_str(), 1);
  say("no launcher and no MPI, so starting {} ranks on this host: {}", nranks, fmt::join(command, " "));
  std::fflush(stderr);
  std::vector<pid_t> started;
  for (int rank = nranks - 1; rank > 0; --rank) {
    const pid_t child = fork();
    if (child == 0) become_rank(rank, command);
    if (child > 0) {
      started.push_back(child);
      continue;
    }
    const int why = errno;
    for (const pid_t pid : started) kill(pid, SIGKILL);
    throw_not_possible(fmt::format("cannot start rank {} of {}: {}", rank, nranks, std::strerror(why)));
  }
  become_rank(0, command);
}

}  // namespace busbar
