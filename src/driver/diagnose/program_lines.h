#pragma once

#include "driver/readers/log_line.h"
#include "driver/rules/line_rules.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// The writer of a line that is not NCCL's, as launchers and PyTorch put it in front: "[rank3]:", "[1,3]<stderr>:",
/// "(Worker[rank=9] pid=77, ip=10.0.0.1)", "(worker3, rank=3, ...)", "node1: ".
struct LineWriter {
  int rank = -1;
  int label = -1;         ///< the number that srun or mpirun put in front
  int own = -1;           ///< what PyTorch says of itself, "[rank9]"
  std::string host;       ///< empty: unknown
  std::string pod;        ///< or container, or host of the journal: where others name nobody
  std::string_view text;  ///< the line without quote marks, line numbers and all of the above
};

LineWriter find_writer(std::string_view line);

/// A line without what a launcher or a container put in front of it.
std::string_view undecorated(std::string_view line);

/// Whether a line of no known shape may report a failure: reads each byte once, and few healthy lines pass.
bool may_report_failure(std::string_view line);

/// What a program, a framework, a launcher or a tool reports of a failure, outside NCCL's log.
struct ProgramEvent {
  using What = RuleKind;
  What what = What::error;
  std::vector<int> ranks;  ///< the ranks concerned; of messages and exceptions: the writers
  std::vector<int> came;   ///< of late: those that came
  std::string host;        ///< the same
  std::string device;      ///< a GPU or a port on it
  std::int64_t number = 0;
  std::int64_t pid = -1;
  int local_rank = -1;  ///< its number on its host, if the line has no more
  std::string name;
  std::string text;                ///< the line
  std::string time;                ///< when, of one form for all programs (rules' `times`); empty: unknown
  const LineRule* rule = nullptr;  ///< that the line matches; null: none decides it

  /// Its rule says what it means.
  bool is_explained() const { return rule != nullptr && !rule->means.empty(); }
};

/// What precedes a line.
struct LineContext {
  bool in_error = false;    ///< it follows "Last error:" or the like: it needs no word for a failure itself
  bool labels_lie = false;  ///< the launcher's numbers are not ranks: it started one torchrun per host
  bool help = false;        ///< it is a whole help text of Open MPI
  /// Whether a line of the rule called `id` is near; null: none is.
  std::function<bool(std::string_view id)> follows;
};

/// Never throws for what is in the line.
std::vector<ProgramEvent> read_program_line(LineWriter writer, const LineContext& before = {});

/// Names of events: what was under "Last error:", and what torchrun takes for the first failure.
inline constexpr std::string_view kLastError = "last error";
inline constexpr std::string_view kRootCause = "root cause";

/// Whether a rule's lines say that the kernel or a cgroup killed a process for lack of memory.
inline bool is_out_of_memory(const LineRule& rule) { return rule.id == "out-of-memory-kill"; }

/// Reads what `nvidia-smi -q` says of GPUs, whole or in pieces, line by line.
class SmiReader {
 public:
  /// "GPU 00000000:3B:00.0: SRAM Uncorrectable : 3": trouble that a line reports, with its GPU.
  std::optional<std::string> read(std::string_view line);

 private:
  std::string gpu_;
  bool aggregate_ = false;  ///< of the GPU's whole life: no current trouble
};

/// Whether the lines after this one belong to an error ("Last error:").
bool opens_error(std::string_view line);

/// The first rule that fits; of kind `other` if none does. `file`: where in NCCL.
const LineRule& classify_warning(std::string_view file, std::string_view text);

/// Numbers, addresses and names of segments replaced, so that warnings of one kind become equal.
std::string warning_shape(std::string_view text);

}  // namespace busbar
