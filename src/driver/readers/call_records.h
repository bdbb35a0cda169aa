#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

// Calls that others recorded: the dumps of PyTorch's Flight Recorder, and the lines of NCCL's Inspector.

/// What a dump of PyTorch's Flight Recorder (formats 2.0 to 2.10) says of one rank.
struct TorchDump {
  struct Call {
    std::int64_t seq = 0;  ///< collective_seq_id: the same call has the same on all ranks of its group
    std::string op;        ///< "all_reduce"
    std::uint64_t count = 0;
    std::string dtype;
    bool ended = false;
    std::uint32_t when = 0;  ///< its place among all of the rank
  };
  /// A send or a receive.
  struct Transfer {
    int here = -1, there = -1;  ///< ranks of the group
    bool sends = false;
    auto operator<=>(const Transfer&) const = default;
  };
  struct Group {
    std::string name, description;  ///< "0", "default_pg"
    std::vector<int> ranks;
    std::vector<Call> calls;  ///< collectives, in their order
    std::string site;         ///< where the program made the last: "step, train.py:77"; empty: unknown
    std::uint64_t sends = 0, receives = 0;
    std::vector<Transfer> open;  ///< that have not ended, the first ones
  };
  /// A record of one call, also of those that are one launch together.
  struct Entry {
    std::size_t group = 0;  ///< index of `groups`
    std::string op;         ///< "all_reduce", "send 0->3"
    std::uint64_t in_elements = 0, out_elements = 0;
    std::string in_dtype, out_dtype;
    bool ended = false;
    int peer = -1;          ///< of a send or a receive
    std::int64_t seq = -1;  ///< as a Call's, of collectives
    double time_s = -1;     ///< below 0: not recorded
  };
  int rank = -1;  ///< -1: only the file's name may have it
  std::string nccl_version;
  std::vector<Group> groups;
  std::vector<Entry> entries;  ///< all records, sends and receives too, in their order
  std::uint64_t lost = 0;      ///< records that were made and are not there
};

/// Ranks of a text such as "[0, 1, 2]"; `cut` if it says that it is not all of them.
std::vector<int> ranks_in(std::string_view text, bool& cut);

/// Whether a file that begins so is such a dump, as JSON or pickled, as PyTorch writes it by itself.
bool looks_like_torch_dump(std::string_view head);

/// The dump, or those of several ranks: in a list, or by rank. Skips members of an unexpected type.
/// Throws Error if it is neither JSON nor a pickle of plain data; `name` begins the message.
std::vector<TorchDump> read_torch_dumps(std::string_view text, const std::string& name);

/// The lists, tuples, dicts, strings and numbers of a pickle (protocols 2 to 5) as JSON, for parse_json and its
/// limits. Nothing of it is executed: an instruction that would make or call anything else (GLOBAL, REDUCE, ...) is
/// refused by its name. Memory stays in proportion to the bytes. Throws Error(bad_config) that begins with `name`.
std::string json_of_pickle(std::string_view bytes, const std::string& name);

/// A line of NCCL's Inspector (2.28 on): a collective that ended.
struct InspectorCall {
  std::string comm;  ///< "0x7f8c496ae9f661"
  int rank = -1, nranks = -1;
  std::string host;
  std::int64_t pid = -1;
  std::string op;        ///< "AllReduce"
  std::int64_t seq = 0;  ///< coll_sn: of this kind of collective on this communicator
  std::uint64_t nbytes = 0;
  double time_s = -1;  ///< below 0: not recorded
};

std::optional<InspectorCall> read_inspector_line(std::string_view line);

}  // namespace busbar
