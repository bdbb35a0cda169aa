#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/job_interface.h"
#include "look/look_parts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace busbar {
namespace {

constexpr std::size_t kMostLogs = 64;

/// The end of a regular file; a pipe or a device may block.
std::string last_bytes(const std::string& path, std::size_t most, int flags = 0) {
  const Socket file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | flags));
  if (!file.open()) throw_not_possible(fmt::format("{}: {}", path, std::strerror(errno)));
  struct stat info {};
  if (fstat(file.fd(), &info) != 0 || !S_ISREG(info.st_mode)) throw_not_possible(path + ": no regular file");
  std::string text(std::min(static_cast<std::size_t>(info.st_size), most), '\0');
  const off_t from = info.st_size - std::ssize(text);
  std::size_t done = 0;
  for (ssize_t got = 1; got > 0 && done < text.size(); done += static_cast<std::size_t>(std::max<ssize_t>(got, 0)))
    got = pread(file.fd(), text.data() + done, text.size() - done, from + static_cast<off_t>(done));
  text.resize(done);
  return text;
}

double modified_s(const struct stat& info) {
  return static_cast<double>(info.st_mtim.tv_sec) + static_cast<double>(info.st_mtim.tv_nsec) * 1e-9;
}

bool is_log(const SeenFile& file) {
  if (!file.writes || !file.target.starts_with('/')) return false;
  for (const std::string_view folder : {"/dev/", "/proc/", "/sys/", "/memfd:"})
    if (file.target.starts_with(folder)) return false;
  if (file.fd == 1 || file.fd == 2) return true;
  const std::string name = lower_case(std::string_view(file.target).substr(file.target.rfind('/') + 1));
  return name.ends_with(".log") || name.ends_with(".out") || name.ends_with(".err") ||
         name.find("nccl") != std::string::npos;
}

/// The files in which this rank's recorder leaves its dump, as seen from here.
std::vector<std::string> dump_paths(const SeenProcess& p) {
  std::vector<std::string> paths;
  if (p.look.role != LookProcess::Role::rank || p.look.rank < 0) return paths;
  for (const std::string& prefix : p.dump_prefixes)
    if (prefix.starts_with('/')) paths.push_back(fmt::format("{}{}", prefix, p.look.rank));
  return paths;
}

std::string inside(const SeenProcess& p, const std::string& path) {
  return fmt::format("/proc/{}/root{}", p.look.pid, path);
}

}  // namespace

std::vector<OpenLog> open_logs(const std::vector<SeenProcess>& processes, const std::vector<std::string>& blocked) {
  using Role = LookProcess::Role;
  std::vector<OpenLog> logs;
  for (const SeenProcess& p : processes) {
    if (p.look.role != Role::rank && p.look.role != Role::launcher) continue;
    for (const SeenFile& file : p.files) {
      if (!is_log(file) || is_on(blocked, file.target)) continue;
      const auto found = std::ranges::find_if(logs, [&](const OpenLog& one) { return one.log.path == file.target; });
      if (found == logs.end() && logs.size() >= kMostLogs) continue;
      OpenLog& open = found != logs.end() ? *found : logs.emplace_back();
      open.log.path = file.target;
      open.at = fmt::format("/proc/{}/fd/{}", p.look.pid, file.fd);
      if (!contains(open.log.pids, p.look.pid)) open.log.pids.push_back(p.look.pid);
    }
  }
  return logs;
}

OpenLog with_size(OpenLog open, double now_s) {
  struct stat info {};
  // Its writer may be gone.
  if (stat(open.at.c_str(), &info) != 0) open.at = open.log.path;
  if (stat(open.at.c_str(), &info) != 0) throw_not_possible(fmt::format("{}: {}", open.log.path, std::strerror(errno)));
  open.log.nbytes = info.st_size;
  open.log.quiet_s = std::max(0.0, now_s - modified_s(info));
  return open;
}

LookLog with_tail(OpenLog open, std::size_t most) {
  if (access(open.at.c_str(), R_OK) != 0) open.at = open.log.path;  // its writer may be gone
  std::string text = last_bytes(open.at, most);
  // Of a line that is cut, the name of a secret may be missing.
  if (const auto end = text.find_first_of("\r\n"); text.size() == most)
    text.erase(0, end == std::string::npos ? end : end + 1);
  const auto zeros = std::ranges::count(text, '\0');
  if (zeros * 50 > std::ssize(text)) text.clear();  // no text
  open.log.text = masked(text);
  return open.log;
}

std::vector<LookDump> find_dumps(const std::vector<SeenProcess>& processes, const std::vector<std::string>& blocked,
                                 double now_s) {
  std::vector<LookDump> dumps;
  for (const SeenProcess& p : processes) {
    if (p.look.role != LookProcess::Role::rank) continue;
    std::vector<std::string> paths = dump_paths(p);
    paths.insert(paths.end(), p.records.begin(), p.records.end());
    for (const std::string& path : paths) {
      struct stat info {};
      const std::string at = inside(p, path);
      // No link: it may lead to what only we may read.
      if (is_on(blocked, path) || lstat(at.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
      if (modified_s(info) < p.look.start_s) continue;  // of an earlier job
      dumps.push_back({at, p.look.pid, p.look.rank, std::max(0.0, now_s - modified_s(info)), ""});
    }
  }
  return dumps;
}

LookDump with_bytes(LookDump dump, std::size_t most) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::string bytes = last_bytes(dump.path, most + 1, O_NOFOLLOW);
  if (bytes.size() > most)
    throw_not_possible(fmt::format("{}: more than {} bytes are too many to send", dump.path, most));
  std::uint32_t bits = 0;
  int held = 0;
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (held += 8; held >= 6; held -= 6) dump.base64 += kLetters[bits >> (held - 6) & 63];
  }
  if (held > 0) dump.base64 += kLetters[bits << (6 - held) & 63];
  dump.base64.append((4 - dump.base64.size() % 4) % 4, '=');
  return dump;
}

LookDump request_dump(const SeenProcess& rank, double limit_s) {
  if (rank.look.rank < 0) throw_not_possible("a rank whose number is not known has no pipe");
  if (rank.dump_pipe.empty()) throw_not_possible("the job was started without TORCH_NCCL_DEBUG_INFO_PIPE_FILE");
  const std::string pipe = inside(rank, fmt::format("{}{}.pipe", rank.dump_pipe, rank.look.rank));
  // Without a reader this fails instead of waiting.
  const int fd = open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) throw_not_possible(fmt::format("{}: {}", pipe, std::strerror(errno)));
  struct stat info {};
  const bool is_pipe = fstat(fd, &info) == 0 && S_ISFIFO(info.st_mode) && (info.st_uid == rank.uid || info.st_uid == 0);
  timespec before{};
  clock_gettime(CLOCK_REALTIME, &before);
  const bool asked = is_pipe && write(fd, "1", 1) == 1;
  close(fd);
  if (!asked) throw_not_possible(pipe + ": not a pipe of that process, or it is full");
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(limit_s);
  while (Clock::now() < end) {
    for (const std::string& path : dump_paths(rank)) {
      const std::string at = inside(rank, path);
      if (stat(at.c_str(), &info) != 0 || info.st_size == 0) continue;
      if (modified_s(info) + 0.01 < static_cast<double>(before.tv_sec)) continue;
      poll(nullptr, 0, 500);  // it may still be written
      return {at, rank.look.pid, rank.look.rank, 0, ""};
    }
    poll(nullptr, 0, 100);
  }
  throw_not_possible(fmt::format("rank {}: no dump within {} s", rank.look.rank, limit_s));
}

}  // namespace busbar
