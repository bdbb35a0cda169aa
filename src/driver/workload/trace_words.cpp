#include "common/base/text.h"
#include "driver/readers/call_records.h"
#include "driver/rules/line_rules.h"
#include "driver/workload/trace_readers.h"

#include <array>
#include <charconv>
#include <string_view>

namespace busbar {
namespace {

/// A word, its name here and its size: PyTorch's element types (c10/core/ScalarType.h), C++ spellings of them, as
/// Kineto's "Input type" has them, and NCCL's numbers (nccl.h). Bool travels as uint8.
constexpr std::string_view kTypes =
    "float=float/4;float32=float/4;7=float/4;double=double/8;float64=double/8;8=double/8;half=half/2;float16=half/2;"
    "6=half/2;bfloat16=bfloat16/2;9=bfloat16/2;long=int64/8;long int=int64/8;int64=int64/8;4=int64/8;int=int32/4;"
    "int32=int32/4;2=int32/4;short=int16/2;short int=int16/2;int16=int16/2;char=int8/1;signed char=int8/1;int8=int8/1;"
    "0=int8/1;byte=uint8/1;unsigned char=uint8/1;uint8=uint8/1;bool=uint8/1;1=uint8/1;uint16=uint16/2;uint32=uint32/4;"
    "3=uint32/4;uint64=uint64/8;5=uint64/8;float8_e4m3fn=f8e4m3/1;float8_e4m3fnuz=f8e4m3/1;float8e4m3=f8e4m3/1;"
    "10=f8e4m3/1;float8_e5m2=f8e5m2/1;float8_e5m2fnuz=f8e5m2/1;float8e5m2=f8e5m2/1;11=f8e5m2/1;"
    "complexfloat=complex64/8;complex<float>=complex64/8;complexdouble=complex128/16;complex<double>=complex128/16";

/// The same of collectives: in lower case, without '_', '.', "coalesced", "base" and "oop".
constexpr std::string_view kKinds =
    "allreduce=all_reduce;allreducesparse=all_reduce;allgather=all_gather;allgatherintotensor=all_gather;"
    "reducescatter=reduce_scatter;reducescattertensor=reduce_scatter;broadcast=broadcast;reduce=reduce;"
    "alltoall=alltoall;alltoallv=alltoallv;gather=gather;scatter=scatter;send=send;recv=recv;barrier=barrier";

/// What follows "WORD=" in such a list; empty: it is not there.
std::string_view meaning_of(std::string_view list, std::string_view word) {
  for (const std::string_view entry : split_text(list, ';')) {
    const std::size_t equals = entry.find('=');
    if (entry.substr(0, equals) == word) return entry.substr(equals + 1);
  }
  return {};
}

}  // namespace

CommKind kind_of(std::string_view word) {
  std::string plain = lower_case(word);
  std::erase(plain, '_');
  if (plain == "alltoallbase") return CommKind::alltoallv;
  for (const std::string_view ending : {"coalesced", "base", "oop"}) {
    if (plain.ends_with(ending)) plain.resize(plain.size() - ending.size());
  }
  return from_word<CommKind>(meaning_of(kKinds, plain)).value_or(CommKind::unknown);
}

TraceType type_of(std::string_view word) {
  std::string plain = lower_case(trimmed(word));
  for (const std::string_view prefix : {"c10::", "torch.", "nccl"}) {
    if (plain.starts_with(prefix)) plain.erase(0, prefix.size());
  }
  const std::string_view meaning = meaning_of(kTypes, plain);
  const std::size_t slash = meaning.find('/');
  if (meaning.empty()) return {};
  return {std::string(meaning.substr(0, slash)), number_of<std::uint64_t>(meaning.substr(slash + 1)).value_or(0)};
}

std::string reduction_of(std::string_view word) {
  static constexpr std::array<std::string_view, 5> kOps{"sum", "prod", "max", "min", "avg"};
  const auto number = number_of<std::uint64_t>(word);
  if (!number) return {};
  return *number < kOps.size() ? std::string(kOps[*number]) : "premulsum";
}

std::optional<std::uint64_t> bytes_of(std::int64_t count, std::uint64_t size) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;
  if (count < 0 || size == 0 || static_cast<std::uint64_t>(count) > kMostBytes / size) return std::nullopt;
  return static_cast<std::uint64_t>(count) * size;
}

std::vector<int> ranks_in(std::string_view text, bool& cut) {
  std::vector<int> ranks;
  cut = cut || text.find("...") != kNotFound;
  for (const char* at = text.data(); at < text.data() + text.size();) {
    int rank = 0;
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), rank);
    if (error == std::errc{} && rank >= 0) ranks.push_back(rank);
    at = error == std::errc{} ? end : at + 1;
  }
  return ranks;
}

RecognizedTrace recognize_trace(std::string_view head) {
  const std::string_view text = trimmed(head.substr(head.starts_with("\xef\xbb\xbf") ? 3 : 0));
  const bool is_json = text.starts_with('{') || text.starts_with('[');
  const auto has = [&](std::string_view words) { return mentions(head, words); };
  const LineRules& rules = builtin_line_rules();
  if (is_json && has("\"coll_perf\"")) return {TraceKind::log, "a log of NCCL's Inspector", ""};
  if (rules.has("profiles", text)) return {TraceKind::kineto, "a trace of PyTorch's profiler", ""};
  if (looks_like_torch_dump(head)) return {TraceKind::flight_dump, "a dump of PyTorch's Flight Recorder", ""};
  if (has("NCCL INFO") || has("NCCL WARN")) return {TraceKind::log, "a log of NCCL", ""};
  if (const std::string_view what = rules.shape_in("other-traces", head).key; !what.empty())
    return {TraceKind::refused, what, rules.facts_in("other-traces", head).at(std::string(what))};
  if (has("schema: 1") && has("operations:"))
    return {TraceKind::workload, "a file of `busbar workload import`", "`busbar workload show` reads it"};
  if (text.starts_with('{')) return {TraceKind::kineto, "JSON, perhaps of PyTorch's profiler", ""};
  if (is_json)
    return {TraceKind::refused, "JSON of another kind", "give the traces of PyTorch's profiler of the same run"};
  return {};
}

}  // namespace busbar
