#include "common/output/samples_file.h"

#include "common/base/error.h"
#include "common/output/csv_report.h"
#include "common/output/format.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>

namespace busbar {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;  // [bytes]

}  // namespace

SamplesFile::SamplesFile(const std::string& path)
    : file_(create_new_file(path, "--samples")),
      kept_("collective,dtype,op,root,bytes,placement,epoch,sample,time_us,skew_us\n") {
  if (write_kept()) return;
  const int error = errno;
  ::unlink(file_.path.c_str());
  throw Error(ExitCode::bad_config,
              fmt::format("--samples {}: cannot write '{}': {}", path, file_.path, std::strerror(error)));
}

bool SamplesFile::write_kept() noexcept {
  std::FILE* stream = file_.stream.get();
  const bool good = std::fwrite(kept_.data(), 1, kept_.size(), stream) == kept_.size() && std::fflush(stream) == 0;
  kept_.clear();
  return good;
}

void SamplesFile::flush() noexcept {
  if (kept_.empty() || write_kept() || warned_) return;
  warned_ = true;
  const int error = errno;
  try {
    std::fputs(write_warning(file_.path, error).c_str(), stderr);
  } catch (const std::exception&) {  // no memory for a warning: the file is short all the same
  }
}

void SamplesFile::add(const Collective& collective, const Case& c, bool in_place, int epoch,
                      std::span<const double> time_s, std::span<const double> skew_s) {
  const std::string cell = fmt::format("{},{},{},{},{},{},{},", collective.name, name(c.dtype), redop_text(c.op),
                                       shown_root(collective, c.root), c.nbytes, in_place ? "in" : "out", epoch);
  for (std::size_t i = 0; i < time_s.size(); ++i) {
    fmt::format_to(std::back_inserter(kept_), "{}{},{},{}\n", cell, i, csv_microseconds(time_s[i]),
                   i < skew_s.size() ? csv_microseconds(skew_s[i]) : "");
  }
  if (kept_.size() >= kPiece) flush();
}

}  // namespace busbar
