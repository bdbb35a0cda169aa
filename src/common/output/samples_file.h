#pragma once

#include "common/measure/result.h"
#include "common/output/appended_file.h"

#include <span>
#include <string>

namespace busbar {

/// Every sample of --stat as CSV (--samples), for analyses of one's own:
/// collective,dtype,op,root,bytes,placement,epoch, sample,time_us,skew_us. Rank 0 only. Kept back in memory and written
/// in large pieces, or when the caller has a row to show, so that samples cost next to nothing while others are taken.
class SamplesFile {
 public:
  /// Creates the file (or `path.0`, ...) with its header. Throws Error(bad_config) if that is not possible.
  explicit SamplesFile(const std::string& path);
  SamplesFile(const SamplesFile&) = delete;
  SamplesFile& operator=(const SamplesFile&) = delete;
  ~SamplesFile();

  /// One batch: the samples of one visit to a cell. `skew_s` is as long as `time_s`, or empty where nobody knows.
  void add(const Collective& collective, const Case& row_case, bool in_place, int epoch, std::span<const double> time_s,
           std::span<const double> skew_s);

  /// Writes what is kept back.
  void flush();

  /// The file that was created.
  const std::string& path() const { return file_.path(); }
  /// Whether every sample is in the file.
  bool complete() const { return kept_.empty() && file_.complete(); }

 private:
  AppendedFile file_;
  std::string kept_;
};

}  // namespace busbar
