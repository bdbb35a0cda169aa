#include "common/backends/tuner_table.h"

#include "common/base/error.h"
#include "common/base/text.h"

#include <cstddef>

namespace busbar {
namespace {

// In the order of the enumerations.
constexpr std::array<const char*, kTunerCollectives> kTunerWords{"broadcast", "reduce", "allgather", "reducescatter",
                                                                 "allreduce"};
constexpr std::array<const char*, 7> kAlgorithms{"tree",      "ring", "collnet_direct", "collnet_chain", "nvls",
                                                 "nvls_tree", "pat"};
constexpr std::array<const char*, 3> kProtocols{"ll", "ll128", "simple"};

constexpr std::size_t kRequiredFields = 8;
constexpr std::size_t kMaxFields = 10;

/// Lower case without underscores, which unifies all spellings.
std::string plain(std::string_view text) {
  std::string result = lower_case(text);
  std::erase(result, '_');
  return result;
}

template <class Value, std::size_t n>
std::optional<Value> find_name(const std::array<const char*, n>& names, std::string_view text) {
  const std::string wanted = plain(text);
  for (std::size_t i = 0; i < n; ++i)
    if (wanted == plain(names[i])) return static_cast<Value>(i);
  return std::nullopt;
}

template <std::size_t n>
std::string list(const std::array<const char*, n>& names) {
  std::string text;
  for (std::size_t i = 0; i < n; ++i) text += (i == 0 ? "" : i + 1 == n ? " or " : ", ") + std::string(names[i]);
  return text;
}

/// Cut short: the text may be a whole file of another kind.
std::string quote(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  return "'" + std::string(text.substr(0, kLongest)) + (text.size() > kLongest ? "...'" : "'");
}

template <class Integer>
Integer number(std::string_view text, const char* what) {
  const std::optional<Integer> value = number_of<Integer>(text);
  if (!value) throw_bad_config(std::string(what) + " must be a decimal number, not " + quote(text));
  return *value;
}

int number_in(std::string_view text, const char* what, int least, int most) {
  const int value = number<int>(text, what);
  if (value >= least && value <= most) return value;
  throw_bad_config(std::string(what) + " must be " + std::to_string(least) + " to " + std::to_string(most) + ", not " +
                   quote(text));
}

template <class Value, std::size_t n>
Value choice(std::string_view text, const char* what, const std::array<const char*, n>& names) {
  const auto found = find_name<Value>(names, text);
  if (!found) throw_bad_config(std::string(what) + " must be " + list(names) + ", not " + quote(text));
  return *found;
}

/// Its error messages do not say where.
TunerRule parse_line(std::string_view text) {
  std::vector<std::string_view> fields = split_list(text);
  const std::size_t count = fields.size();
  if (count > kMaxFields) throw_bad_config("more than " + std::to_string(kMaxFields) + " fields");
  for (std::string_view& field : fields) field = trimmed(field);
  if (count < kRequiredFields) {
    throw_bad_config(
        "expected collective,minBytes,maxBytes,algorithm,protocol,channels,nNodes,nRanks[,numPipeOps[,regBuff]]"
        ", found " +
        counted(count, "field"));
  }
  constexpr int kMany = 1 << 30;
  TunerRule rule;
  rule.collective = choice<TunerCollective>(fields[0], "the collective", kTunerWords);
  rule.min_bytes = number<std::uint64_t>(fields[1], "minBytes");
  rule.max_bytes = number<std::uint64_t>(fields[2], "maxBytes");
  if (rule.min_bytes > rule.max_bytes) throw_bad_config("minBytes is above maxBytes: the rule can never apply");
  rule.algorithm = choice<TunerAlgorithm>(fields[3], "the algorithm", kAlgorithms);
  rule.protocol = choice<TunerProtocol>(fields[4], "the protocol", kProtocols);
  rule.channels = number_in(fields[5], "channels", -1, kMaxTunerChannels);
  if (rule.channels == 0) rule.channels = -1;  // NCCL treats 0 as its own choice
  rule.nnodes = number_in(fields[6], "nNodes", -1, kMany);
  rule.nranks = number_in(fields[7], "nRanks", -1, kMany);
  if (count > 8) rule.pipe_ops = number_in(fields[8], "numPipeOps", -1, kMany);
  if (count > 9) rule.registered = number_in(fields[9], "regBuff", -1, 1);
  return rule;
}

}  // namespace

std::optional<TunerCollective> tuner_collective(std::string_view name) {
  return find_name<TunerCollective>(kTunerWords, name);
}

std::optional<TunerAlgorithm> tuner_algorithm(std::string_view name) {
  return find_name<TunerAlgorithm>(kAlgorithms, name);
}

std::optional<TunerProtocol> tuner_protocol(std::string_view name) {
  return find_name<TunerProtocol>(kProtocols, name);
}

const char* name(TunerCollective collective) { return kTunerWords[static_cast<std::size_t>(collective)]; }
const char* name(TunerAlgorithm algorithm) { return kAlgorithms[static_cast<std::size_t>(algorithm)]; }
const char* name(TunerProtocol protocol) { return kProtocols[static_cast<std::size_t>(protocol)]; }

std::string tuner_csv(std::span<const TunerRule> rules) {
  // The example plugin reads lines of at most 255 bytes, and a comment only from column 0.
  std::string text =
      "# collective,minBytes,maxBytes,algorithm,protocol,channels,nNodes,nRanks[,numPipeOps[,regBuff]]\n";
  for (const TunerRule& r : rules) {
    text += std::string(name(r.collective)) + ',' + std::to_string(r.min_bytes) + ',' + std::to_string(r.max_bytes) +
            ',' + name(r.algorithm) + ',' + name(r.protocol) + ',' + std::to_string(r.channels) + ',' +
            std::to_string(r.nnodes) + ',' + std::to_string(r.nranks);
    if (r.pipe_ops != -1 || r.registered != -1) text += ',' + std::to_string(r.pipe_ops);
    if (r.registered != -1) text += ',' + std::to_string(r.registered);
    text += '\n';
  }
  return text;
}

std::vector<TunerRule> parse_tuner_csv(std::string_view text, std::string_view file) {
  std::vector<TunerRule> rules;
  int number = 0;
  for (const std::string_view line : split_text(text, '\n')) {
    ++number;
    if (trimmed(line).empty() || line.front() == '#') continue;
    try {
      rules.push_back(parse_line(line));
    } catch (const Error& e) {
      throw_bad_config(std::string(file) + ":" + std::to_string(number) + ": " + e.what());
    }
    rules.back().line = number;
  }
  return rules;
}

}  // namespace busbar
