#include "driver/accept/accept_store.h"

#include "common/base/error.h"
#include "common/base/read_file.h"
#include "common/output/report_file.h"
#include "common/record/accept_json.h"
#include "common/record/envelope.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace busbar {

AcceptStore::AcceptStore(const std::string& path, const std::string& resume)
    : path_(resume), resumed_(!resume.empty()) {
  if (!resumed_) {
    path_ = create_new_file(path, "-J").path;
  } else if (::access(path_.c_str(), W_OK) != 0) {
    throw Error(ExitCode::bad_config, fmt::format("--resume: {} cannot be written: {}", path_, std::strerror(errno)));
  }
}

std::optional<AcceptResult> AcceptStore::earlier(const AcceptPlan& plan) const {
  if (!resumed_) return std::nullopt;
  const std::string text = read_file(path_, "the results to go on with");
  if (text.empty()) return std::nullopt;  // killed before its first line
  AcceptResult result = read_accept_json(text, path_);
  if (result.schema != kDocumentSchema) {
    throw_bad_config(
        fmt::format("--resume: {} was written by an older version of busbar (schema {}, now {}): `report`, "
                    "`history` and --baseline read it, but its steps cannot be gone on with; start anew",
                    path_, result.schema, kDocumentSchema));
  }
  if (result.plan.digest != plan.digest) {
    throw Error(ExitCode::bad_config,
                fmt::format("--resume: {} was made with another plan than {}; start anew, or resume with the plan that "
                            "it was made with",
                            path_, plan.file));
  }
  return result;
}

void AcceptStore::begin(const AcceptResult& result) {
  const int error = replace_file(path_, accept_json(result));
  if (error != 0) throw Error(ExitCode::bad_config, write_warning(path_, error));
}

void AcceptStore::save(const AcceptResult& result) {
  const int error = replace_file(path_, accept_json(result));
  if (error == 0 || warned_) return;
  warned_ = true;
  fmt::print(stderr, "busbar: warning: {}\n", write_warning(path_, error));
  std::fflush(stderr);
}

void AcceptStore::save_at_times(const AcceptResult& result) {
  constexpr int kTimes = 20;
  const auto begin = std::chrono::steady_clock::now();
  if (begin < next_save_) return;
  save(result);
  const auto end = std::chrono::steady_clock::now();
  next_save_ = end + kTimes * (end - begin);
}

}  // namespace busbar
