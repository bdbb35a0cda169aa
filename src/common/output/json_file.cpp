#include "common/output/json_file.h"

#include "common/base/error.h"
#include "common/base/say.h"
#include "common/output/report_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <exception>

namespace busbar {
namespace {

// [bytes] Up to here a new file per row costs less than what it takes to keep two, and no reader meets a mixture.
constexpr std::size_t kManyRows = std::size_t{256} << 10;

// Where a large file cannot be kept twice it must not eat the run: rewriting takes at most one part in fifty of the
// time.
constexpr int kRestPerWork = 50;

}  // namespace

JsonFile::JsonFile(const std::string& path, const RunInfo& info, const Plan& plan)
    : path_(create_new_file(path, "-J").path), report_(info, plan) {
  if (const int error = rewrite(); error != 0) {
    ::unlink(path_.c_str());
    throw Error(ExitCode::bad_config, fmt::format("-J {}: cannot write '{}': {}", path, path_, std::strerror(error)));
  }
}

JsonFile::~JsonFile() {
  try {
    growing_.reset();
    if (pending_) note(rewrite());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "# warning: '%s' lacks the last rows: %s\n", path_.c_str(), e.what());
  }
}

void JsonFile::add(const Row& row) {
  report_.add(row);
  pending_ = true;
  note(write_rows());
}

void JsonFile::finish(const Summary& summary, ExitCode code, const std::string& end_time) {
  report_.finish(summary, code, end_time);
  growing_.reset();
  note(rewrite());
}

int JsonFile::write_rows() {
  const bool many = report_.rows().size() >= kManyRows;
  if (many && grows_) {
    if (!growing_) growing_.emplace(path_);
    if (growing_->write(report_.head(), report_.rows(), report_.tail()) == 0) {
      pending_ = false;
      return 0;
    }
    growing_.reset();
    grows_ = false;
    return rewrite();  // at once: the rest that the last rewriting earned may not be over yet
  }
  return many && Clock::now() < next_ ? 0 : rewrite();
}

int JsonFile::rewrite() {
  const Clock::time_point start = Clock::now();
  const int error = replace_file(path_, report_.document());
  const Clock::time_point end = Clock::now();
  next_ = end + (end - start) * kRestPerWork;
  if (error == 0) pending_ = false;
  return error;
}

void JsonFile::note(int error) {
  if (error == 0 || warned_) return;
  warned_ = true;
  write_stderr(write_warning(path_, error));
}

}  // namespace busbar
