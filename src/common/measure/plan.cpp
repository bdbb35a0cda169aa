#include "common/measure/plan.h"

#include "common/base/error.h"
#include "common/base/packed_fields.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/measure/buffer_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace busbar {
namespace {

[[noreturn]] void fail_too_many(const std::string& what) {
  throw_bad_config(fmt::format("more than {} {}: raise -i, or use -f 2", kMaxRows, what));
}

/// The next size, or null after `last`: without overflow, and at least one byte larger.
std::optional<std::uint64_t> next_size(const Config& config, std::uint64_t size, std::uint64_t last) {
  if (config.stepfactor <= 1) {
    if (last - size < config.stepbytes) return std::nullopt;
    return size + config.stepbytes;
  }
  const double product = static_cast<double>(size) * config.stepfactor;
  // A whole factor must stay exact above 2^53: 1T times 2, not about that.
  const bool whole = config.stepfactor == std::floor(config.stepfactor) && config.stepfactor < 0x1p32;
  if (whole) {
    const auto factor = static_cast<std::uint64_t>(config.stepfactor);
    if (size > last / factor) return std::nullopt;
    return size * factor;
  }
  if (!(product < static_cast<double>(last) + 1)) return std::nullopt;
  const std::uint64_t next = std::max(static_cast<std::uint64_t>(product), size + 1);
  return next > last ? std::nullopt : std::optional(next);
}

std::size_t unalign_bytes(const Config& config) { return static_cast<std::size_t>(config.unalign) * sizeof(double); }

std::string need_words(const Config& config, const Backend::MemoryLimit& limit, std::uint64_t message) {
  return fmt::format("two buffers of {} and their guards need {}, a rank may use {} ({})", format_bytes(message),
                     format_bytes(arena_bytes(message, unalign_bytes(config))), format_bytes(limit.bytes_per_rank),
                     limit.arithmetic);
}

/// The largest message size for which two buffers fit, with their guards.
std::uint64_t largest_that_fits(const Config& config, const Backend::MemoryLimit& limit) {
  const std::size_t overhead = arena_bytes(0, unalign_bytes(config));
  return limit.bytes_per_rank > overhead ? (limit.bytes_per_rank - overhead) / 2 : 0;
}

/// Sets maxbytes and says why it is lower than requested.
void cap(Plan& plan, const Config& config, const Backend::MemoryLimit& limit) {
  const std::uint64_t most = largest_that_fits(config, limit);
  const auto [first, last] = asked_sizes(config);
  plan.maxbytes = std::min(last, most);
  if (first > most) {
    throw_not_possible(fmt::format("not enough memory for the first size: {}; lower -b or start fewer ranks per host",
                                   need_words(config, limit, first)));
  }
  if (plan.maxbytes < last) {
    plan.cap_arithmetic = fmt::format("Reducing maxBytes to {} due to memory limitation: {}", plan.maxbytes,
                                      need_words(config, limit, last));
  }
}

Problem make_problem(const Collective& collective, const Traffic& traffic, int nranks, std::uint64_t requested,
                     DType dtype, int root) {
  const std::size_t w = size_of(dtype);
  const std::size_t count = collective.count(requested / w, nranks, w, &traffic);
  return {.count = count, .elem_size = w, .nranks = nranks, .root = root, .traffic = &traffic};
}

/// Empty if the operation can run.
std::string why_skipped(const Config& config, const Operation& op, const Backend& backend) {
  const Collective& collective = *op.collective;
  if (collective.why_not != nullptr) {
    std::string reason = collective.why_not(op.problem);
    if (!reason.empty()) return reason;
  }
  if (config.placement == Placements::in && collective.in_place == nullptr)
    return fmt::format("{} has no in-place form", collective.name);
  return backend.why_unsupported(op).value_or("");
}

void refuse_options_of_pingpong(const Config& config, const Collective& collective) {
  const Config usual;
  const char* option = config.pattern != usual.pattern ? "--pattern"
                       : config.window != usual.window ? "--window"
                       : config.pairs != usual.pairs   ? "--pairs"
                                                       : nullptr;
  if (option == nullptr || collective.id == CollectiveId::pingpong) return;
  throw_bad_config(
      fmt::format("{} is for pingpong_perf: {} has no pairs of ranks; leave it out", option, collective.name));
}

std::vector<int> roots_of(const Config& config, const Collective& collective, int nranks) {
  if (!config.all_roots && config.root >= nranks) {
    throw_bad_config(fmt::format("-r {}: there {} only {}, numbered from 0", config.root, nranks == 1 ? "is" : "are",
                                 counted(nranks, "rank")));
  }
  if (!collective.has_root) return {0};
  const bool by_rounds = collective.id == CollectiveId::pingpong;
  // An odd number of ranks has no pairs: one row says so.
  if (by_rounds && (config.pairs == PairChoice::half || nranks % 2 != 0)) return {kHalves};
  if (!by_rounds && !config.all_roots) return {config.root};
  std::vector<int> roots(static_cast<std::size_t>(by_rounds ? nranks - 1 : nranks));
  std::iota(roots.begin(), roots.end(), 0);
  return roots;
}

bool sized_by_matrix(const Collective& collective, const Traffic& traffic) {
  return uses_traffic(collective) && traffic.from_matrix();
}

/// One size, if the options do not set the sizes.
std::vector<std::uint64_t> sizes_of(const Config& config, const Collective& collective, const Traffic& traffic,
                                    std::uint64_t maxbytes) {
  if (!collective.moves_data) return {0};
  if (sized_by_matrix(collective, traffic)) return {asked_sizes(config).first};
  return sweep_sizes(config, maxbytes);
}

std::vector<DType> dtypes_of(const Config& config, const Collective& collective) {
  return collective.moves_data ? config.dtypes : std::vector{config.dtypes.front()};
}

std::vector<std::optional<Op>> ops_of(const Config& config, const Collective& collective) {
  if (!collective.has_op) return {std::nullopt};
  return {config.ops.begin(), config.ops.end()};
}

/// A traffic matrix sets all sizes: one row, whose memory the requested sizes do not show.
void check_matrix_fits(const Plan& plan, const Config& config, const Backend::MemoryLimit& limit) {
  for (const Case& c : plan.cases) {
    if (c.nbytes <= largest_that_fits(config, limit)) continue;
    throw_not_possible(
        fmt::format("not enough memory for the alltoallv matrix: {}; scale it down "
                    "(NCCL_TESTS_ALLTOALLV_MATRIX_SCALE) or start fewer ranks per host",
                    need_words(config, limit, c.nbytes)));
  }
}

/// The agreed values, as bytes.
struct Digested {
  std::string bytes;
  void add(auto... values) { (pack_into(bytes, values), ...); }
};

void add_config(Digested& all, const Config& c) {
  all.add(c.nthreads, c.ngpus, c.iters, c.agg_iters, c.warmup_iters, c.run_cycles, c.average, c.per_iter_timing,
          c.per_iter_skip, c.parallel_init, c.check, c.blocking, c.stream_null, c.timeout_s, c.cudagraph,
          c.local_register, c.cta_policy, c.memory_report, c.unalign, c.backend, c.placement, c.buffers, c.pairs,
          c.nonblocking, c.dry_run, c.topology, c.ranks_per_gpu, c.stat, c.rel_ci, c.min_time_s, c.max_time_s,
          c.cell_time_s, c.epochs, c.seed, c.cadence, c.per_rank, c.show_algo, c.show_prediction, c.paranoid,
          c.inject.has_value());
  if (c.inject) all.add(c.inject->rank, c.inject->operation, c.inject->kind, c.inject->late_s);
  // These decide whether ranks gather what they report.
  all.add(!c.output_file.empty(), !c.csv.empty());
}

void add_traffic(Digested& all, const Traffic& traffic) {
  all.add(traffic.spread, traffic.dim, traffic.bytes);
  all.add(traffic.pattern, traffic.window);
}

constexpr std::size_t kManySizes = 100;
constexpr double kLongTime = 600;   ///< [s]
constexpr double kLatency = 20e-6;  ///< [s]

bool same_sweep(const Case& a, const Case& b) { return a.dtype == b.dtype && a.op == b.op && a.root == b.root; }

std::size_t count_sizes(const Plan& plan) {
  return static_cast<std::size_t>(
      std::ranges::count_if(plan.cases, [&](const Case& c) { return same_sweep(c, plan.cases.front()); }));
}

int count_halves(const Plan& plan, const Config& config) {
  return config.placement == Placements::both && has_in_place(plan) ? 2 : 1;
}

std::string duration_words(const Plan& plan, const Config& config, double assumed_busbw) {
  const double cycle_s = estimate_time_s(plan, config, assumed_busbw);
  if (config.run_cycles == 0) return fmt::format("about {} per cycle, without end (-N 0)", format_duration(cycle_s));
  return fmt::format("about {}", format_duration(cycle_s * config.run_cycles));
}

/// All rows, or the first and last of many.
std::string row_lines(const Plan& plan) {
  constexpr std::size_t kHead = 40;
  constexpr std::size_t kTail = 10;
  const std::size_t n = plan.cases.size();
  const std::size_t hidden = n > kHead + kTail + 1 ? n - kHead - kTail : 0;
  constexpr const char* kLine = "{:>12}  {:>12}  {:>8}  {:>6}  {:>6}\n";
  std::string text = fmt::format(kLine, "size (B)", "count", "type", "redop", "root");
  for (std::size_t i = 0; i < n; ++i) {
    if (hidden > 0 && i == kHead) {
      text += fmt::format("{:>12}  ({} more rows)\n", "...", hidden);
      i += hidden;
    }
    const Case& c = plan.cases[i];
    text += fmt::format(kLine, c.nbytes, c.problem.count, name(c.dtype), c.op ? name(*c.op) : "none",
                        shown_root(*plan.collective, c.root));
  }
  return text;
}

std::string skip_line(const Collective& collective, const Skip& skip) {
  std::string what(name(skip.dtype));
  if (skip.op) what += fmt::format(" {}", name(*skip.op));
  what += root_words(collective, skip.root);
  return fmt::format("skipped: {}: {}\n", what, skip.reason);
}

std::string memory_lines(const Plan& plan, const Config& config, const Backend::MemoryLimit& limit,
                         int ranks_per_host) {
  const std::size_t message = largest_message(plan);
  const std::size_t per_rank = arena_bytes(message, unalign_bytes(config));
  std::string text =
      fmt::format("memory: {} per rank (two buffers of {} with guards), {} per host of {}\n", format_bytes(per_rank),
                  format_bytes(message), format_bytes(per_rank * ranks_per_host), counted(ranks_per_host, "rank"));
  text += fmt::format("limit:  {} per rank ({})\n", format_bytes(limit.bytes_per_rank), limit.arithmetic);
  return text;
}

}  // namespace

SizeRange asked_sizes(const Config& config) {
  if (config.sizes.empty()) return {config.minbytes, config.maxbytes};
  const auto [low, high] = std::minmax_element(config.sizes.begin(), config.sizes.end());
  return {*low, *high};
}

std::vector<std::uint64_t> sweep_sizes(const Config& config, std::uint64_t maxbytes) {
  std::vector<std::uint64_t> sizes;
  if (!config.sizes.empty()) {
    for (std::uint64_t size : config.sizes)
      if (size <= maxbytes) sizes.push_back(size);
    std::ranges::sort(sizes);
    if (sizes.size() > kMaxRows) fail_too_many("sizes");
    return sizes;
  }
  const std::uint64_t last = std::min(config.maxbytes, maxbytes);
  std::optional<std::uint64_t> size = config.minbytes;
  if (config.minbytes > last) size.reset();
  for (; size; size = next_size(config, *size, last)) {
    if (sizes.size() == kMaxRows) fail_too_many("sizes");
    sizes.push_back(*size);
  }
  return sizes;
}

bool has_in_place(const Plan& plan) { return plan.collective->in_place != nullptr && plan.why_out_alone.empty(); }

bool has_half(const Config& config, const Plan& plan, bool in_place) {
  return config.placement != (in_place ? Placements::out : Placements::in) && (!in_place || has_in_place(plan));
}

Plan make_plan(const Config& config, const Collective& collective, const Backend& backend, const Traffic& traffic,
               const Backend::MemoryLimit& limit) {
  refuse_options_of_pingpong(config, collective);
  const int nranks = backend.nranks();
  const bool by_matrix = sized_by_matrix(collective, traffic);
  const std::vector<int> roots = roots_of(config, collective, nranks);
  const std::vector<std::optional<Op>> ops = ops_of(config, collective);
  Plan plan;
  plan.collective = &collective;
  plan.maxbytes = asked_sizes(config).last;
  if (!by_matrix && collective.moves_data) cap(plan, config, limit);
  const std::vector<std::uint64_t> sizes = sizes_of(config, collective, traffic, plan.maxbytes);
  const bool in_place = config.placement == Placements::in;
  for (DType dtype : dtypes_of(config, collective)) {
    for (const std::optional<Op>& op : ops) {
      for (int root : roots) {
        // The largest size decides for all: a backend's limits are upper limits.
        const Problem largest = make_problem(collective, traffic, nranks, sizes.back(), dtype, root);
        const std::string reason = why_skipped(config, {&collective, largest, dtype, op, in_place}, backend);
        if (!reason.empty()) {
          plan.skipped.push_back({dtype, op, root, reason});
          continue;
        }
        if (plan.cases.size() + sizes.size() > kMaxRows) fail_too_many("rows");
        // Only the collective and the library decide, so the first row that runs decides for all.
        if (plan.cases.empty() && collective.in_place != nullptr)
          plan.why_out_alone = backend.why_unsupported({&collective, largest, dtype, op, true}).value_or("");
        for (std::uint64_t size : sizes) {
          const Problem problem = make_problem(collective, traffic, nranks, size, dtype, root);
          plan.cases.push_back({dtype, op, root, size, problem, message_bytes(collective, problem)});
        }
      }
    }
  }
  if (by_matrix) check_matrix_fits(plan, config, limit);
  return plan;
}

std::uint64_t hash(std::string_view bytes) {
  std::uint64_t value = 0xcbf29ce484222325ull;
  for (const char c : bytes) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return value;
}

std::uint64_t digest(const Plan& plan, const Config& config) {
  Digested all;
  all.add(plan.collective->id, plan.maxbytes);
  add_config(all, config);
  all.add(plan.cases.size());
  for (const Case& c : plan.cases) all.add(c.dtype, c.op, c.root, c.problem.count, c.problem.nranks, c.nbytes);
  // Once: it is the same for all cases, and a matrix has nranks^2 entries.
  const bool has_traffic = uses_traffic(*plan.collective) || plan.collective->id == CollectiveId::pingpong;
  if (!plan.cases.empty() && has_traffic) add_traffic(all, *plan.cases.front().problem.traffic);
  return hash(all.bytes);
}

double estimate_time_s(const Plan& plan, const Config& config, double assumed_busbw) {
  const double repeats = static_cast<double>(config.agg_iters) * std::max(1, config.cudagraph);
  const double operations = (config.warmup_iters + config.iters) * repeats + config.check;
  const double passes = 3.0 * (1 + config.check);
  double total_s = 0;
  for (const Case& c : plan.cases) {
    // One rank alone still copies.
    const double factor = std::max(1.0, plan.collective->bus_factor(c.problem.nranks));
    const double operation_s = kLatency + plan.collective->algorithm_bytes(c.problem) * factor / assumed_busbw;
    total_s += operations * operation_s * messages_per_call(*plan.collective, c.problem) +
               passes * static_cast<double>(c.nbytes) / assumed_busbw;
  }
  return total_s * count_halves(plan, config);
}

std::optional<std::string> plan_warning(const Plan& plan, const Config& config, double assumed_busbw) {
  if (plan.cases.empty()) return std::nullopt;
  const std::size_t nsizes = count_sizes(plan);
  const double time_s = estimate_time_s(plan, config, assumed_busbw) * std::max(1, config.run_cycles);
  if (nsizes <= kManySizes && time_s <= kLongTime) return std::nullopt;
  const bool additive = config.sizes.empty() && config.stepfactor <= 1 && nsizes > 16;
  return fmt::format("plan: {}, {}{}", counted(plan.cases.size(), "row"), duration_words(plan, config, assumed_busbw),
                     additive ? "; did you mean -f 2?" : "");
}

std::string dry_run_text(const Plan& plan, const Config& config, const Backend::MemoryLimit& limit, int ranks_per_host,
                         double assumed_busbw) {
  std::string text;
  for (const Skip& skip : plan.skipped) text += skip_line(*plan.collective, skip);
  if (plan.cases.empty()) return text + fmt::format("plan: {}: nothing to run\n", plan.collective->name);
  const std::string head = fmt::format("plan: {} on {}, {} of {}\n", plan.collective->name,
                                       counted(plan.cases.front().problem.nranks, "rank"),
                                       counted(plan.cases.size(), "row"), counted(count_sizes(plan), "size"));
  text = head + row_lines(plan) + text;
  if (!plan.cap_arithmetic.empty()) text += plan.cap_arithmetic + '\n';
  text += memory_lines(plan, config, limit, ranks_per_host);
  text += fmt::format("time:   {}, assuming a busbw of {:.0f} GB/s\n", duration_words(plan, config, assumed_busbw),
                      assumed_busbw / 1e9);
  return text;
}

}  // namespace busbar
