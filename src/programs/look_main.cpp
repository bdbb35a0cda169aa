#include "common/base/error.h"
#include "common/base/say.h"
#include "common/record/host_look.h"
#include "common/record/json_fields.h"
#include "look/look_parts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

// busbar-look: what runs on each host of a job that `busbar triage` examines. Linked statically, because it is copied
// to hosts and into containers; prints one JSON document, the facts of one host.

namespace {

using namespace busbar;

/// Systems have fmt as a shared library only. This file is compiled with fmt's code in it (FMT_HEADER_ONLY), and the
/// linker takes from it what the rooms call.
[[gnu::used]] std::string take_fmt(std::FILE* file, std::string text) {
  fmt::print(file, "{}", 1);
  fmt::format_to(std::back_inserter(text), "{}{:.3f}", 1, 1.0);
  if (text.empty()) throw fmt::format_error("");
  return fmt::format("{}", text);
}

/// Gives way to the job in every respect: it runs within the job's own limits. But where it stops ranks, those wait for
/// it: on cores that others spin on, gdb had no stack after 8 s each.
void be_modest(const LookOptions& options) {
  constexpr rlim_t kMemory = 56 << 20;
  constexpr int kNice = 10;                        // 19 may wait for half a minute while ranks spin on all cores
  constexpr int kWhoProcess = 1, kIdle = 3 << 13;  // ioprio_set(2)
  if (!options.native_stacks) setpriority(PRIO_PROCESS, 0, kNice);
  syscall(SYS_ioprio_set, kWhoProcess, 0, kIdle);
  if (const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); fd >= 0) {
    [[maybe_unused]] const ssize_t written = write(fd, "1000", 4);
    close(fd);
  }
  rlimit memory{};
  getrlimit(RLIMIT_DATA, &memory);
  memory.rlim_cur = kMemory < memory.rlim_max ? kMemory : memory.rlim_max;
  setrlimit(RLIMIT_DATA, &memory);
  memory = {0, 0};
  setrlimit(RLIMIT_CORE, &memory);
  signal(SIGPIPE, SIG_DFL);
}

/// The user that listens at `address`, null if nobody does.
std::optional<uid_t> listener_at(const sockaddr_un& address, socklen_t length) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  ucred holder{};
  socklen_t size = sizeof(holder);
  const bool found = connect(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
                     getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &holder, &size) == 0;
  close(fd);
  return found ? std::optional(holder.uid) : std::nullopt;
}

/// One look at a time on a host: a name without a file, which ends with this process. Anyone may take a name, so it
/// waits only for a user that may look at the same processes.
void wait_for_turn() {
  constexpr int kPatience = 60;  // [half seconds]
  constexpr std::string_view kName = "busbar-look";
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, kName.data(), kName.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + kName.size());
  std::optional<uid_t> holder;
  for (int i = 0; i < kPatience; ++i) {
    const bool taken = bind(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0;
    if (taken) listen(fd, SOMAXCONN);
    if (taken || errno != EADDRINUSE) return;
    holder = listener_at(address, length);
    if (holder && *holder != 0 && *holder != geteuid()) return;
    poll(nullptr, 0, 500);
  }
  if (holder) throw_not_possible("another busbar triage looks at this host now; start again when it has ended");
}

/// The options, which only `busbar triage` writes: one JSON object.
LookOptions read_options(int argc, char** argv) {
  if (argc != 2) throw_bad_config("`busbar triage` runs this, with one argument");
  const std::string name = "the argument";
  const Json json = parse_json(argv[1], name);
  const auto options = record_at<LookOptions>(JsonPlace(json, "", name, "`busbar triage`"));
  const bool good = options.apart_s >= 0 && options.apart_s <= 60 && options.limit_s >= 1 && options.limit_s <= 3600 &&
                    options.log_bytes <= 16 << 20;
  if (!good) throw_bad_config("the argument: a time or a size that `busbar triage` does not ask for");
  return options;
}

int run(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    fmt::print("busbar-look {}\n", BUSBAR_VERSION);
    return 0;
  }
  const LookOptions options = read_options(argc, argv);
  be_modest(options);
  wait_for_turn();
  const std::string text = look_document(take_look(Probe(), options));
  const bool written = std::puts(text.c_str()) >= 0 && std::fflush(stdout) == 0;
  return code_of(written ? ExitCode::good : ExitCode::results_lost);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    write_stderr(fmt::format("busbar-look: {}\n", error.what()));
    const auto* known = dynamic_cast<const Error*>(&error);
    return code_of(known != nullptr ? known->code() : ExitCode::internal);
  }
}
