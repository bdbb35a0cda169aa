#include "common/output/samples_file.h"

#include "common/output/csv_report.h"
#include "common/output/format.h"

#include <fmt/format.h>

#include <exception>
#include <iterator>
#include <utility>

namespace busbar {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;  // [bytes]

}  // namespace

SamplesFile::SamplesFile(const std::string& path)
    : file_(path, "--samples", "collective,dtype,op,root,bytes,placement,epoch,sample,time_us,skew_us\n") {}

SamplesFile::~SamplesFile() {
  try {
    flush();
  } catch (const std::exception&) {  // no memory: the file is short
  }
}

void SamplesFile::flush() {
  if (!kept_.empty()) file_.append(std::exchange(kept_, {}));
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
