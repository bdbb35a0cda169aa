#include "driver/readers/log_files.h"

#include "common/base/error.h"
#include "common/base/log_scan.h"
#include "common/machine/job_interface.h"
#include "driver/readers/input_file.h"
#include "driver/readers/log_line.h"
#include "driver/rules/line_rules.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <map>
#include <set>
#include <system_error>
#include <utility>
#include <variant>

namespace busbar {

LineReader::LineReader(int fd, std::uint64_t limit) : fd_(fd), limit_(limit), buffer_(new char[kBlock + kMaxLine]) {}

std::string_view LineReader::beginning() {
  while (bytes_ < kHead && fill()) {  // a pipe gives little at once
  }
  return {buffer_.get() + begin_, end_ - begin_};
}

bool LineReader::fill() {
  std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  feed_ = nullptr;
  const std::uint64_t room = std::min<std::uint64_t>(kBlock + kMaxLine - end_, limit_ - bytes_);
  if (room == 0) return false;
  for (;;) {
    const ssize_t got = ::read(fd_, buffer_.get() + end_, static_cast<std::size_t>(room));
    if (got > 0) {
      const auto came = [&](char c) { return std::memchr(buffer_.get() + end_, c, static_cast<std::size_t>(got)); };
      for (const char* mark : {"\x1b", "[0m", "[0;"})
        escapes_ = escapes_ || mentions({buffer_.get() + end_, static_cast<std::size_t>(got)}, mark);
      carriages_ = carriages_ || came('\r') != nullptr;
      end_ += static_cast<std::size_t>(got);
      bytes_ += static_cast<std::uint64_t>(got);
      return true;
    }
    if (got == 0) return false;
    if (errno == EAGAIN) {  // standard input may have been made non-blocking by another process that shares it
      pollfd wait{.fd = fd_, .events = POLLIN, .revents = 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      error_ = errno;
      return false;
    }
  }
}

namespace fs = std::filesystem;

namespace {

/// Files by device and inode: a link, or a folder named together with its file, must not count calls twice.
using Known = std::set<std::pair<dev_t, ino_t>>;

bool is_new(const fs::path& path, Known& known) {
  struct stat status {};
  return ::stat(path.c_str(), &status) != 0 || known.emplace(status.st_dev, status.st_ino).second;
}

/// Links to folders are not followed: they may form cycles.
void add_folder(const fs::path& folder, Known& known, std::vector<fs::path>& files) {
  std::error_code failed;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed))
    entries.push_back(*it);
  if (failed) files.push_back(folder);  // read_log_file will say why
  std::ranges::sort(entries);
  for (const fs::directory_entry& entry : entries) {
    std::error_code ignored;
    if (entry.is_directory(ignored)) {
      if (!entry.is_symlink(ignored)) add_folder(entry.path(), known, files);
    } else if (entry.is_regular_file(ignored) && is_new(entry.path(), known)) {
      files.push_back(entry.path());
    }
  }
}

/// Empty if `fd` is readable, up to `limit` bytes. To be called right after opening it, for errno.
std::string why_not_readable(int fd, bool standard_input, std::uint64_t& limit) {
  if (fd < 0) return std::strerror(errno);
  struct stat status {};
  if (::fstat(fd, &status) != 0) return std::strerror(errno);
  limit = std::numeric_limits<std::uint64_t>::max();
  if (standard_input) return "";
  if (S_ISDIR(status.st_mode)) return "a folder that cannot be listed";
  if (!S_ISREG(status.st_mode)) return "no regular file (give pipes as '-')";
  // A log that grows as fast as it is read would have no end. Files of /proc say 0, and some of them have none.
  constexpr std::uint64_t kMostUnsized = std::uint64_t{64} << 20;
  limit = status.st_size > 0 ? static_cast<std::uint64_t>(status.st_size) : kMostUnsized;
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  return "";
}

/// Empty if it is text, perhaps with some noise. Programs that die leave NULs and halves of letters in their
/// logs, and a log that was truncated under its writer begins with a hole; a core file or an image has control
/// characters everywhere (noise has 9 in 100).
std::string why_not_text(std::string_view beginning) {
  beginning = beginning.substr(0, std::size_t{64} << 10);
  beginning.remove_prefix(std::min(beginning.size(), beginning.find_first_not_of('\0')));
  const auto odd = std::ranges::count_if(beginning, [](char c) {
    return static_cast<unsigned char>(c) < ' ' && std::string_view("\t\n\v\f\r\b\a\x1b").find(c) == kNotFound;
  });
  const bool nccl = mentions(beginning, "NCCL");
  return !nccl && static_cast<std::size_t>(odd) * 25 > beginning.size() ? "binary" : "";
}

/// Joins the long lines that containers' logs have in parts: "2026-11-21T00:00:00.0Z stderr P text", the last with F.
struct PartJoiner {
  std::array<std::string, 3> begun;  ///< of stdout and stderr; a record of PyTorch whose text is on the next line
  std::string joined;

  /// Whether `line`, which becomes the joined one, is whole.
  bool is_whole(std::string_view& line) {
    if (!begun[2].empty()) line = joined = std::exchange(begun[2], {}) + ' ' + std::string(line);
    const bool ends = line.size() < 200 && (line.ends_with(']') || line.ends_with("collective:"));
    if (ends && builtin_line_rules().has("record-heads", line)) begun[2] = line;
    if (!begun[2].empty()) return false;
    if (line.size() < 11 || line[10] != 'T') return true;
    LogScan scan{line};
    scan.word();
    const bool of_stderr = scan.take("stderr ");
    if (!of_stderr && !scan.take("stdout ")) return true;
    const bool is_last = scan.take("F ");
    if (!is_last && !scan.take("P ")) return true;
    std::string& before = begun[of_stderr ? 1 : 0];
    if (is_last && before.empty()) return true;
    before.append(scan.rest.substr(0, LineReader::kMaxLine - before.size()));
    if (is_last)
      line = joined = std::string(line.substr(0, line.size() - scan.rest.size())) + std::exchange(before, {});
    return is_last;
  }
};

/// What nearly all lines of a file have in front.
struct UsualPrefix {
  std::string key;         ///< of `line-prefixes`; empty: nothing
  bool one_label = false;  ///< the same pod or host in all of them says nothing
};

UsualPrefix usual_prefix(std::string_view beginning) {
  std::map<std::string, std::vector<std::string>> labels;
  std::size_t lines = 0;
  for (const std::string_view line : split_text(beginning.substr(0, kHead), '\n')) {
    if (!trimmed(line).empty()) ++lines;
    const LineRules& rules = builtin_line_rules();
    for (const auto& [key, rewritten] : rules.facts_in("line-prefixes", rules.without("colours", line)))
      labels[key].push_back(rewritten.starts_with("[pod/") ? rewritten.substr(0, rewritten.find('/', 5)) : "");
  }
  for (const auto& [key, all] : labels) {
    const bool same = std::ranges::count(all, all.front()) == std::ssize(all);
    if (lines >= 3 && all.size() * 10 >= lines * 9) return {key, same && !all.front().empty()};
  }
  return {};
}

}  // namespace

std::vector<fs::path> find_log_files(std::span<const fs::path> paths) {
  std::vector<fs::path> files;
  Known known;
  for (const fs::path& path : paths) {
    std::error_code failed;
    const fs::file_status status = path == "-" ? fs::file_status() : fs::status(path, failed);
    if (path != "-" && !fs::exists(status)) {
      const bool missing = status.type() == fs::file_type::not_found;
      throw_bad_config(fmt::format("{}: {}", path.string(), missing ? "no such file or folder" : failed.message()));
    }
    if (fs::is_directory(status)) {
      add_folder(path, known, files);
    } else if (path == "-" || is_new(path, known)) {
      files.push_back(path);
    }
  }
  return files;
}

LogFile read_log_file(const fs::path& path,
                      const std::function<void(const LogLine& line, std::uint64_t number)>& on_line) {
  LogFile file;
  file.path = path;
  // Does not wait for the writer of a pipe, which may never come.
  const Socket descriptor(path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::uint64_t limit = 0;
  file.trouble = why_not_readable(descriptor.fd(), path == "-", limit);
  if (!file.trouble.empty()) return file;
  LineReader reader(descriptor.fd(), limit);
  file.trouble = why_not_text(reader.beginning());
  const UsualPrefix prefix = usual_prefix(reader.beginning());
  std::string plain;
  const auto emit = [&](std::string_view text) {
    if (text.starts_with(kUtf8Mark)) text.remove_prefix(kUtf8Mark.size());
    if (reader.may_have_colours() && (mentions(text, "\x1b") || mentions(text, "[0m") || mentions(text, "[0;")))
      text = plain = builtin_line_rules().without("colours", text);
    if (mentions(text, "] INFO ") || mentions(text, "WARN ")) {
      const std::string marked = builtin_line_rules().facts_in("old-marks", text)["line"];
      if (!marked.empty()) text = plain = marked;
    }
    LogLine line = parse_log_line(text);
    const auto* unread = std::get_if<OtherLine>(&line.fact);
    const bool plain_text = unread != nullptr && !unread->nccl;
    if (!prefix.key.empty() && (plain_text || line.shape("version") != nullptr)) {
      std::string rewritten = builtin_line_rules().facts_in("line-prefixes", text)[prefix.key];
      if (prefix.one_label) rewritten.erase(0, rewritten.find("] ") + 2);
      if (!rewritten.empty()) line = parse_log_line(plain = std::move(rewritten));
    }
    const bool foreign = std::holds_alternative<TorchWork>(line.fact) || std::holds_alternative<KernelEvent>(line.fact);
    const auto* other = std::get_if<OtherLine>(&line.fact);
    file.nccl_lines += foreign || (other != nullptr && !other->nccl) ? 0 : 1;
    file.unknown_lines += other != nullptr && other->nccl && !other->chatter ? 1 : 0;
    on_line(line, reader.number());
  };
  // Quotes and web pages lose line breaks; but two lines in one may also be a torn one.
  const auto emit_each = [&](std::string_view text) {
    constexpr std::size_t kMark = 9;  // "NCCL INFO"; without a space in front, at which a search stops
    const std::size_t first = text.find("NCCL "), next = text.find("NCCL ", std::min(first, text.size()) + kMark + 2);
    const bool glued = next != kNotFound && (has_any(text.substr(next + 1), {"NCCL INFO ", "NCCL WARN "}) ||
                                             text.substr(first, kMark) == "NCCL WARN");
    const bool bars = mentions(text, "%|");  // of tqdm, which leaves its line open for the next writer
    if (!glued && !bars) return emit(text);
    const std::size_t begin = bars ? 0 : first + kMark + 1;
    const std::string apart =
        std::string(text.substr(0, begin)) +
        builtin_line_rules().without(bars ? "bars" : "glued", text.substr(begin), bars ? "\\1\n\\2" : "\n\\1") + '\n';
    for (std::size_t at = 0, end = 0; (end = apart.find('\n', at)) != kNotFound; at = end + 1)
      emit(std::string_view(apart).substr(at, end - at));
  };
  PartJoiner parts;
  for (std::string_view text; file.trouble.empty() && reader.next(text);) {
    if (!parts.is_whole(text)) continue;
    // A record to a line, with its time, as docker's files have them.
    std::string records, damage;
    if (prefix.key == "json" && text.starts_with('{')) {
      records = lines_in(text, damage);
    } else if (prefix.key == "json") {
      records = lines_in(builtin_line_rules().facts_in("line-prefixes", text)["json"], damage);
    }
    if (records.empty()) emit_each(text);
    for (const std::string_view line : split_text(records, '\n'))
      if (!line.empty()) emit_each(fmt::format("{} {}", find_iso_timestamp(text), line));
  }
  for (const std::string& begun : parts.begun) {
    if (!begun.empty()) emit(begun);
  }
  file.lines = reader.number();
  file.bytes = reader.bytes();
  if (reader.error() != 0) file.trouble = std::strerror(reader.error());
  if (file.trouble.empty() && file.bytes == 0) file.trouble = "empty";
  return file;
}

}  // namespace busbar
