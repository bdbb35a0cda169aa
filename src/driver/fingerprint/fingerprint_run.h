#pragma once

#include "common/backends/mpi/mpi_algorithms.h"
#include "driver/launch/launching.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbar {

/// Messages and bytes from one rank to another.
struct Sent {
  std::uint64_t messages = 0;
  std::uint64_t nbytes = 0;
  auto operator<=>(const Sent&) const = default;
};

/// Which rank sends what to which: [rank][peer].
using SentMatrix = std::vector<std::vector<Sent>>;

/// One rank's row from the file that Open MPI's pml monitoring writes at the end (lines "I rank peer N bytes M msgs
/// sent ..." of the library's own messages, "E" of the program's). Throws Error(backend) for what is not such a file.
std::vector<Sent> parse_monitoring(std::string_view text, int rank, int nranks);

/// (with - without) / calls. Throws Error(inconclusive) if it does not divide: the calls did not all send the same.
SentMatrix per_call(const SentMatrix& with, const SentMatrix& without, int calls);

/// What a rank sends in all.
Sent total(const std::vector<Sent>& row);

/// "6 messages, 96 KiB per rank", or if ranks differ "r0 3/192 KiB, others 1/64 KiB" (messages/bytes); ranks that
/// send alike are put together, the first of the largest groups last as "others".
std::string describe(const SentMatrix& sent);

// What each rank sends in one call, counted by Open MPI's own monitoring in launches of their own: a fingerprint of the
// algorithm that does not depend on time. Nothing here calls MPI; use it from a process that no launcher started, or
// from one rank.

/// One operation to test; the size as on the command line [bytes].
struct FingerprintCase {
  const Collective* collective = nullptr;
  std::uint64_t nbytes = 65536;
  DType dtype = DType::float32;
  std::optional<Op> op;  ///< has a value exactly if the collective has one
  int root = 0;
};

/// Under which Open MPI the probe runs.
struct FingerprintSetting {
  std::optional<OmpiChoice> forced;  ///< through MPI_T, in the probe; then no rules file is in force
  std::optional<std::string>
      rules_file;  ///< of the launch; empty text: without one; nothing: as our environment has it
};

struct FingerprintOptions {
  std::string launch = "mpirun -n 4";  ///< as launch_command takes it, without {ranks}
  std::string tmp;                     ///< folder for the ranks' files, which all hosts see; empty: the system's
  double launch_timeout_s = 60;        ///< of one launch
};

/// Runs probes. Throws Error(not_possible) if this Open MPI has no monitoring, is none, or wrote its files elsewhere,
/// Error(inconclusive) if calls differ, Error(backend) with the probe's words, Interrupted.
class Fingerprinter {
 public:
  explicit Fingerprinter(FingerprintOptions options) : options_(std::move(options)), folder_(options_.tmp) {}

  /// What each rank sends to each in one call: one launch, and one without a call if the setting is new.
  SentMatrix measure(const FingerprintCase& fingerprint_case, const FingerprintSetting& setting);

  int nranks() const { return nranks_; }
  const std::string& library() const { return library_; }  ///< "Open MPI 4.1.4"
  const std::string& shown() const { return shown_; }      ///< what --show-algo says of the last measured case

 private:
  SentMatrix launch(const FingerprintCase& fingerprint_case, const FingerprintSetting& setting, int calls);
  void read_greeting(const ChildResult& result, const std::string& command);
  [[noreturn]] void refuse_missing(const std::filesystem::path& file, int rank) const;

  FingerprintOptions options_;
  LaunchFolder folder_;
  std::map<std::string, SentMatrix> idle_;  ///< by the ranks' environment: start and end without a call
  int nranks_ = 0;
  std::string library_;
  std::string shown_;
  std::string host_;  ///< of rank 0
  int launches_ = 0;
};

/// An algorithm as it looks here, or why it cannot be seen.
struct KnownFingerprint {
  OmpiChoice choice;
  std::string why_not;
  SentMatrix sent;
};

/// Every algorithm of the collective in this case, each measured in a launch; `more`: choices with segment sizes.
std::vector<KnownFingerprint> measure_algorithms(Fingerprinter& fingerprinter, const FingerprintCase& fingerprint_case,
                                                 const std::vector<OmpiChoice>& more = {});

/// Those that send exactly this.
std::vector<OmpiChoice> consistent(const SentMatrix& sent, const std::vector<KnownFingerprint>& known);

/// The problem that the case is on so many ranks.
Problem problem_of(const FingerprintCase& fingerprint_case, int nranks);

/// The probe's side: `calls` operations on MPI_COMM_WORLD. `forced` turns dynamic rules on, also if its algorithm is
/// 0. The whole of the process; returns the exit code.
int run_fingerprint_probe(int argc, char** argv, const FingerprintCase& fingerprint_case,
                          const std::optional<OmpiChoice>& forced, int calls);

// Results as text and JSON (fingerprint.cpp).

/// One case as it was found.
struct FingerprintResult {
  FingerprintCase fingerprint_case;
  std::string setting;  ///< "in force", "rules file (says ring)", "forced ring"
  SentMatrix sent;
  std::optional<SentMatrix> without_rules;  ///< if a rules file was given
  std::vector<KnownFingerprint> known;
  int nranks = 0;
  std::string library;
};

/// "{rabenseifner}", "{linear, nonoverlapping}: alike here", or that none fits.
std::string describe_consistent(const Collective& collective, const std::vector<OmpiChoice>& choices);

/// For people: the setting, what it sends and is consistent with, then every algorithm.
std::string fingerprint_text(const FingerprintResult& result);

/// All results as one JSON document.
std::string fingerprint_json(const std::vector<FingerprintResult>& results);

}  // namespace busbar
