#include "driver/diagnose/diagnose_inputs.h"

#include "common/base/error.h"
#include "common/base/input_limits.h"
#include "common/watch/flight_record.h"
#include "common/watch/hang_json.h"
#include "common/watch/ras.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

namespace busbar {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHead = 16 << 10;
constexpr std::uint64_t kLargestFlight = 64 << 10;

/// A regular file's first `most` bytes, and its size; nothing where it is none or cannot be read.
struct Piece {
  std::string text;
  std::uint64_t size = 0;
};

std::optional<Piece> read_piece(const fs::path& path, std::uint64_t most) {
  // A pipe without a writer must not hold us up.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return std::nullopt;
  Piece piece;
  struct stat info {};
  bool good = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  if (good) {
    piece.size = static_cast<std::uint64_t>(info.st_size);
    piece.text.resize(static_cast<std::size_t>(std::min(piece.size, most)));
    std::size_t at = 0;
    while (at < piece.text.size()) {
      const ssize_t n = read(fd, piece.text.data() + at, piece.text.size() - at);
      if (n <= 0) break;
      at += static_cast<std::size_t>(n);
    }
    piece.text.resize(at);
  }
  close(fd);
  if (!good) return std::nullopt;
  return piece;
}

bool has(const std::string& text, std::string_view words) { return text.find(words) != std::string::npos; }

/// Text or JSON of the RAS service; a log that quotes it stays a log.
bool looks_like_ras(const std::string& head) {
  if (has(head, "NCCL INFO") || has(head, "NCCL WARN")) return false;
  if (has(head, "\"nccl_version\"")) return head.find_first_not_of(" \t\r\n") == head.find('{');
  return (has(head, "Group ") && has(head, "Comms ")) || has(head, "\nCommunicators...") || has(head, "Job summary");
}

bool read_hang(const fs::path& path, DiagnoseInputs& inputs) {
  const auto whole = read_piece(path, kMostFileBytes);
  try {
    inputs.hangs.push_back(read_hang_json(whole ? whole->text : ""));
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

DiagnoseInputs sort_inputs(std::span<const fs::path> files) {
  DiagnoseInputs inputs;
  std::string ras_before;
  for (const fs::path& path : files) {
    const auto head = path == "-" ? std::nullopt : read_piece(path, kHead);
    const auto other = [&](const char* what) { inputs.others.push_back({path, what, head->size}); };
    if (!head) {
      inputs.logs.push_back(path);
    } else if (has(head->text, "\"kind\":\"hang\"") && head->size <= kMostFileBytes && read_hang(path, inputs)) {
      other("hang report");
    } else if (head->size <= kMostFileBytes && looks_like_ras(head->text)) {
      std::string answer = read_piece(path, kMostFileBytes).value_or(Piece{}).text;
      RasEvidence evidence = read_ras(answer, ras_before);
      if (!evidence.answered) {
        inputs.logs.push_back(path);
        continue;
      }
      evidence.host = path.filename().string();
      inputs.ras.push_back(std::move(evidence));
      ras_before = std::move(answer);
      other("answer of NCCL's RAS service");
    } else if (std::optional<FlightState> flight; head->size <= kLargestFlight &&
                                                  has(head->text.substr(0, 64), std::string_view("\0", 1)) &&
                                                  (flight = read_flight(path))) {
      inputs.flights.push_back(std::move(*flight));
      other("flight record");
    } else {
      inputs.logs.push_back(path);
    }
  }
  return inputs;
}

}  // namespace busbar
