#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

// The decision table of NCCL's example tuner, a CSV file: written by `busbar compare --emit-tuner`, read by
// libbusbar_tuner.so. The standard library only, because that plugin is loaded into other people's programs.

/// Numbered as NCCL numbers them in its tuner interface (ncclFunc_t).
enum class TunerCollective : std::uint8_t {
  broadcast = 0,
  reduce = 1,
  all_gather = 2,
  reduce_scatter = 3,
  all_reduce = 4
};

/// Row of NCCL's cost table.
enum class TunerAlgorithm : std::uint8_t {
  tree = 0,
  ring = 1,
  collnet_direct = 2,
  collnet_chain = 3,
  nvls = 4,
  nvls_tree = 5,
  pat = 6
};

/// Column of NCCL's cost table.
enum class TunerProtocol : std::uint8_t { ll = 0, ll128 = 1, simple = 2 };

inline constexpr std::size_t kTunerCollectives = 5;

/// The most channels that NCCL has; a larger number in a table is an error.
inline constexpr int kMaxTunerChannels = 64;

/// One line: algorithm, protocol and channel count from min_bytes to max_bytes. Bytes are counted as in the tuner, the
/// larger of the bytes sent and received; for all five collectives this is the "size" column of the benchmarks' tables.
struct TunerRule {
  TunerCollective collective = TunerCollective::all_reduce;
  std::uint64_t min_bytes = 0;  ///< inclusive
  std::uint64_t max_bytes = 0;  ///< inclusive
  TunerAlgorithm algorithm = TunerAlgorithm::ring;
  TunerProtocol protocol = TunerProtocol::simple;
  int channels = -1;    ///< -1: NCCL's own choice; with the example plugin that means 1, so prefer a number
  int nnodes = -1;      ///< -1: any
  int nranks = -1;      ///< -1: any
  int pipe_ops = -1;    ///< operations in the launch; -1: any
  int registered = -1;  ///< 0 or 1: buffers registered; -1: any
  int line = 0;         ///< in the file it was read from

  bool operator==(const TunerRule&) const = default;
};

/// Accepts any spelling: all_reduce, AllReduce, allreduce; NVLSTree, NVLS_TREE, nvls_tree; LL128, ll128. Null: the
/// tuner interface lacks it.
std::optional<TunerCollective> tuner_collective(std::string_view name);
std::optional<TunerAlgorithm> tuner_algorithm(std::string_view name);
std::optional<TunerProtocol> tuner_protocol(std::string_view name);

/// The names of the table: "allreduce", "nvls_tree", "ll128".
const char* name(TunerCollective collective);
const char* name(TunerAlgorithm algorithm);
const char* name(TunerProtocol protocol);

/// The file, one line per rule in the given order (the first match wins), with a comment on top.
std::string tuner_csv(std::span<const TunerRule> rules);

/// The rules of a file's text, in order. Stricter than the example, which takes an unknown name for allreduce, ring or
/// simple: throws Error(bad_config) with `file` and the line.
std::vector<TunerRule> parse_tuner_csv(std::string_view text, std::string_view file);

}  // namespace busbar
