#include "driver/diagnose/diagnose_logs.h"

#include "common/machine/cores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <system_error>
#include <thread>

namespace busbar {
namespace {

namespace fs = std::filesystem;

/// Files that follow each other; what is in one is in the JobLog in their order, and so after merging is all.
struct Share {
  std::size_t begin = 0;
  std::size_t end = 0;
  JobLog job;
  std::vector<std::string> unknown;
  std::exception_ptr failure;
};

std::string plain(std::string_view text) {
  constexpr std::size_t kMost = 400;
  std::string result(text.substr(0, kMost));
  for (char& c : result) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  return result;
}

/// Parts of about the same size. A file is never divided: its lines mean something only in their order.
std::vector<Share> share_out(std::span<const fs::path> files, std::size_t threads) {
  std::vector<std::uint64_t> sizes;
  std::uint64_t all = 0;
  for (const fs::path& file : files) {
    std::error_code unknown;
    const auto size = fs::file_size(file, unknown);
    sizes.push_back(unknown ? 0 : size + 4096);  // opening one counts too
    all += sizes.back();
  }
  std::vector<Share> shares;
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::uint64_t due = all * shares.size() / threads;
    if (shares.empty() || (shares.size() < threads && before >= due)) shares.push_back({i, i, JobLog(), {}, nullptr});
    shares.back().end = i + 1;
    before += sizes[i];
  }
  return shares;
}

void read_share(Share& share, std::span<const fs::path> files, std::vector<LogFile>& read, std::size_t unknown_lines) {
  try {
    for (std::size_t i = share.begin; i < share.end; ++i) {
      read[i] = read_log_file(files[i], [&](const LogLine& line, std::uint64_t number) {
        share.job.add(line, i, number);
        const auto* other = std::get_if<OtherLine>(&line.fact);
        if (other == nullptr || !other->nccl || other->chatter || share.unknown.size() >= unknown_lines) return;
        share.unknown.push_back(fmt::format("{}:{}: {}", files[i].string(), number, plain(other->text)));
      });
    }
  } catch (...) {
    share.failure = std::current_exception();
  }
}

}  // namespace

ReadLogs read_logs(std::span<const fs::path> files, std::size_t unknown_lines) {
  ReadLogs logs;
  logs.files.resize(files.size());
  std::vector<Share> shares = share_out(files, static_cast<std::size_t>(std::max(1, job_cores())));
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < shares.size(); ++i) {
    threads.emplace_back([&, i] { read_share(shares[i], files, logs.files, unknown_lines); });
  }
  if (!shares.empty()) read_share(shares[0], files, logs.files, unknown_lines);
  for (std::thread& thread : threads) thread.join();
  for (Share& share : shares) {
    if (share.failure) std::rethrow_exception(share.failure);
    logs.job.merge(std::move(share.job));
    for (std::string& line : share.unknown) {
      if (logs.unknown.size() < unknown_lines) logs.unknown.push_back(std::move(line));
    }
  }
  return logs;
}

}  // namespace busbar
