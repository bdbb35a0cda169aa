#include "common/output/json_file.h"

#include "common/output/report_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>

namespace busbar {

// A file of many -I rows on a slow disk must not eat the run: rewriting takes at most one part in fifty of the time.
static constexpr int kRestPerWork = 50;

JsonFile::JsonFile(const std::string& path, const RunInfo& info, const Plan& plan, Clock::time_point now)
    : path_(create_new_file(path, "-J").path), report_(info, plan) {
  if (const int error = rewrite(now); error != 0) {
    ::unlink(path_.c_str());
    throw Error(ExitCode::bad_config, fmt::format("-J {}: cannot write '{}': {}", path, path_, std::strerror(error)));
  }
}

JsonFile::~JsonFile() {
  try {
    if (pending_) rewrite_or_warn(Clock::now());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "# warning: '%s' lacks the last rows: %s\n", path_.c_str(), e.what());
  }
}

void JsonFile::add(const Row& row, Clock::time_point now) {
  report_.add(row);
  pending_ = true;
  if (now >= next_) rewrite_or_warn(now);
}

void JsonFile::finish(const Summary& summary, ExitCode code, const std::string& end_time) {
  report_.finish(summary, code, end_time);
  rewrite_or_warn(Clock::now());
}

int JsonFile::rewrite(Clock::time_point now) {
  const Clock::time_point start = Clock::now();
  const int error = replace_file(path_, report_.document());
  const Clock::duration rest = (Clock::now() - start) * kRestPerWork;
  next_ = now + std::max<Clock::duration>(std::chrono::seconds(1), rest);
  if (error == 0) pending_ = false;
  return error;
}

void JsonFile::rewrite_or_warn(Clock::time_point now) {
  const int error = rewrite(now);
  if (error == 0 || warned_) return;
  warned_ = true;
  std::fputs(write_warning(path_, error).c_str(), stderr);
}

}  // namespace busbar
