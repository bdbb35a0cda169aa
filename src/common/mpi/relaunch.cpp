#include "common/base/error.h"
#include "common/mpi/launcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

namespace busbar {
namespace {

namespace fs = std::filesystem;

/// The file of the MPI library in this process; empty where it is linked statically.
fs::path mpi_library() {
  fs::path found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        const fs::path file = info->dlpi_name;
        if (!file.filename().string().starts_with("libmpi.so")) return 0;
        *static_cast<fs::path*>(out) = file;
        return 1;
      },
      &found);
  return found;
}

bool is_executable(const fs::path& file) { return access(file.c_str(), X_OK) == 0; }

/// The mpirun beside the MPI library, at most three folders up (lib/x86_64-linux-gnu/openmpi), else the first in PATH:
/// one of another MPI would start ranks that do not see each other.
fs::path find_mpirun() {
  // Without links, and never in the root: mpirun takes the folder above its own as the prefix of its installation, and
  // refuses "/", which is what /bin/mpirun gives where /bin is a link to /usr/bin.
  std::error_code unknown;
  fs::path dir = fs::canonical(mpi_library().parent_path(), unknown);
  for (int i = 0; i < 4 && dir.has_relative_path(); ++i, dir = dir.parent_path()) {
    for (const char* file : {"bin/mpirun.openmpi", "bin/mpirun"}) {
      if (is_executable(dir / file)) return dir / file;
    }
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    dir = fs::canonical(folder, unknown);
    if (!dir.empty() && is_executable(dir / "mpirun")) return dir / "mpirun";
  }
  return {};
}

}  // namespace

std::vector<std::string> mpirun_command(const std::string& mpirun, int nranks, bool as_root,
                                        const std::vector<std::string>& args) {
  std::vector<std::string> command{mpirun, "-n", std::to_string(nranks), "--oversubscribe"};
  if (as_root) command.push_back("--allow-run-as-root");
  command.insert(command.end(), args.begin(), args.end());
  // The last of an option wins, in whatever form and place the user wrote the first.
  command.insert(command.end(), {"-t", "1", "-g", "1"});
  return command;
}

void relaunch_under_mpirun(int nranks, int argc, char** argv) {
  constexpr const char* kGuard = "BUSBAR_STARTED_ITSELF";
  if (std::getenv(kGuard) != nullptr) {
    throw Error(
        ExitCode::not_possible,
        fmt::format("mpirun was started for this program but does not tell it its rank: it belongs to another MPI; "
                    "start `mpirun -n {} {}` of the right one without -g and -t",
                    nranks, argv[0]));
  }
  const fs::path mpirun = find_mpirun();
  if (mpirun.empty()) {
    throw Error(ExitCode::not_possible,
                fmt::format("-g and -t without a launcher need mpirun for {} ranks, and there is none beside the MPI "
                            "library or in PATH; install it, or start one rank per process",
                            nranks));
  }
  std::vector<std::string> args(argv, argv + argc);
  std::error_code unknown;
  if (const fs::path self = fs::read_symlink("/proc/self/exe", unknown); !unknown) args[0] = self;
  std::vector<std::string> command = mpirun_command(mpirun, nranks, geteuid() == 0, args);
  fmt::print(stderr, "busbar: no launcher, so starting {} ranks: {}\n", nranks, fmt::join(command, " "));
  std::fflush(stderr);

  setenv(kGuard, "1", 1);
  std::vector<char*> raw;
  for (std::string& word : command) raw.push_back(word.data());
  raw.push_back(nullptr);
  execv(raw[0], raw.data());
  throw Error(ExitCode::not_possible, fmt::format("cannot execute {}: {}", mpirun.string(), std::strerror(errno)));
}

}  // namespace busbar
