// libbusbar_tuner.so: NCCL_TUNER_PLUGIN=/path/libbusbar_tuner.so NCCL_TUNER_CONFIG_FILE=table.csv. Applies a decision
// table to any NCCL program. If anything fails, NCCL's own choice stays and one line in NCCL's log says why. Every
// function succeeds, because NCCL fails the communicator or the collective otherwise.

#include "common/backends/tuner_table.h"
#include "plugins/nccl_plugin_abi.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>

namespace busbar {
namespace {

struct Rule {
  TunerRule rule;
  bool applied = false;  ///< reported in the log
  bool refused = false;
};

/// The tuner of one communicator.
struct Tuner {
  NcclLogger logger = nullptr;
  std::array<std::vector<Rule>, kTunerCollectives> rules;  ///< those for the communicator, in the file's order
};

template <class... Values>
void say(NcclLogger logger, int level, const char* format, Values... values) {
  if (logger != nullptr) logger(level, kNcclLogTuning, "busbar_tuner", __LINE__, format, values...);
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::string read_table(const char* path) {
  // A table has some dozens of lines. Anything larger than this is another file, or one without an end.
  constexpr std::size_t kMostBytes = 1 << 24;
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path, "rb"));
  std::string text;
  std::array<char, 4096> part;
  while (file != nullptr && text.size() <= kMostBytes) {
    const std::size_t got = std::fread(part.data(), 1, part.size(), file.get());
    if (got == 0) break;
    text.append(part.data(), got);
  }
  if (file == nullptr || std::ferror(file.get()) != 0)
    throw std::runtime_error(std::string("cannot read ") + path + ": " + std::strerror(errno));
  if (text.size() > kMostBytes) throw std::runtime_error(std::string(path) + " is longer than 16 MiB: not a table");
  return text;
}

bool fits(int wanted, std::size_t actual) { return wanted == -1 || static_cast<std::size_t>(wanted) == actual; }

void load_rules(Tuner& tuner, std::size_t nranks, std::size_t nnodes) {
  const char* path = std::getenv("NCCL_TUNER_CONFIG_FILE");
  if (path == nullptr || *path == '\0') throw std::runtime_error("NCCL_TUNER_CONFIG_FILE is not set");
  const std::vector<TunerRule> all = parse_tuner_csv(read_table(path), path);
  int kept = 0;
  for (const TunerRule& rule : all) {
    if (!fits(rule.nranks, nranks) || !fits(rule.nnodes, nnodes)) continue;
    tuner.rules[static_cast<std::size_t>(rule.collective)].push_back({rule});
    ++kept;
  }
  say(tuner.logger, kNcclLogInfo, "busbar tuner: %s: %d of %d rules are for %zu ranks on %zu nodes", path, kept,
      static_cast<int>(all.size()), nranks, nnodes);
}

NcclResult make_tuner(void** context, std::size_t nranks, std::size_t nnodes, NcclLogger logger) noexcept {
  *context = nullptr;
  try {
    auto tuner = std::make_unique<Tuner>();
    tuner->logger = logger;
    load_rules(*tuner, nranks, nnodes);
    *context = tuner.release();
  } catch (const std::exception& e) {
    say(logger, kNcclLogWarn, "busbar tuner: NCCL's own choices stand: %s", e.what());
  }
  return kNcclSuccess;
}

NcclResult init_v5(void** context, std::uint64_t, std::size_t nranks, std::size_t nnodes, NcclLogger logger, void*,
                   void*) {
  return make_tuner(context, nranks, nnodes, logger);
}

NcclResult init_v4(std::size_t nranks, std::size_t nnodes, NcclLogger logger, void** context) {
  return make_tuner(context, nranks, nnodes, logger);
}

bool matches(const TunerRule& rule, std::size_t nbytes, int pipe_ops, int registered) {
  return rule.min_bytes <= nbytes && nbytes <= rule.max_bytes && (rule.pipe_ops == -1 || rule.pipe_ops == pipe_ops) &&
         (rule.registered == -1 || rule.registered == (registered != 0 ? 1 : 0));
}

/// Once per rule: otherwise each collective would log a line.
void say_once(const Tuner& tuner, bool& said, const TunerRule& rule, std::size_t nbytes, const char* what) {
  if (said) return;
  said = true;
  say(tuner.logger, kNcclLogInfo, "busbar tuner: line %d, %s of %zu bytes: %s %s, channels %d: %s", rule.line,
      name(rule.collective), nbytes, name(rule.algorithm), name(rule.protocol), rule.channels, what);
}

NcclResult choose(void* context, int function, std::size_t nbytes, int pipe_ops, TunerCosts table, int nalgorithms,
                  int nprotocols, int registered, int* channels) {
  auto* const tuner = static_cast<Tuner*>(context);
  if (tuner == nullptr || function < 0 || function >= static_cast<int>(kTunerCollectives)) return kNcclSuccess;
  for (Rule& r : tuner->rules[static_cast<std::size_t>(function)]) {
    if (!matches(r.rule, nbytes, pipe_ops, registered)) continue;
    const int algorithm = static_cast<int>(r.rule.algorithm);
    const int protocol = static_cast<int>(r.rule.protocol);
    float* const cost = algorithm < nalgorithms && protocol < nprotocols
                            ? &tuner_cost(table, nprotocols, algorithm, protocol)
                            : nullptr;
    // Below 0 there may be no kernel or connection for it, or the user has excluded it.
    if (cost == nullptr || *cost < 0) {
      say_once(*tuner, r.refused, r.rule, nbytes, "not possible here, passed over");
      continue;
    }
    *cost = 0;
    if (r.rule.channels > 0) *channels = r.rule.channels;
    say_once(*tuner, r.applied, r.rule, nbytes, "applied");
    return kNcclSuccess;
  }
  return kNcclSuccess;
}

NcclResult destroy(void* context) {
  delete static_cast<Tuner*>(context);
  return kNcclSuccess;
}

}  // namespace
}  // namespace busbar

// NOLINTBEGIN(readability-identifier-naming): names that NCCL looks up
BUSBAR_NCCL_SYMBOL constinit busbar::TunerV6 ncclTunerPlugin_v6{"busbar tuner", busbar::init_v5, busbar::choose,
                                                                busbar::destroy, nullptr};
BUSBAR_NCCL_SYMBOL constinit busbar::TunerV5 ncclTunerPlugin_v5{"busbar tuner", busbar::init_v5, busbar::choose,
                                                                busbar::destroy};
BUSBAR_NCCL_SYMBOL constinit busbar::TunerV4 ncclTunerPlugin_v4{"busbar tuner", busbar::init_v4, busbar::choose,
                                                                busbar::destroy};
// NOLINTEND(readability-identifier-naming)
