#include "common/measure/plan.h"

#include "common/base/error.h"
#include "common/base/units.h"
#include "common/measure/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace busbar {
namespace {

[[noreturn]] void fail_too_many(const std::string& what) {
  throw Error(ExitCode::bad_config, fmt::format("more than {} {}: raise -i, or use -f 2", kMaxRows, what));
}

/// The next size, or nothing beyond `last`: without overflow, and at least one byte further.
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

std::uint64_t first_size(const Config& config) {
  return config.sizes.empty() ? config.minbytes : *std::min_element(config.sizes.begin(), config.sizes.end());
}

std::uint64_t last_size(const Config& config) {
  return config.sizes.empty() ? config.maxbytes : *std::max_element(config.sizes.begin(), config.sizes.end());
}

std::size_t unalign_bytes(const Config& config) { return static_cast<std::size_t>(config.unalign) * sizeof(double); }

std::string need_words(const Config& config, const Backend::MemoryLimit& limit, std::uint64_t message) {
  return fmt::format("two buffers of {} and their guards need {}, a rank may use {} ({})", format_bytes(message),
                     format_bytes(arena_bytes(message, unalign_bytes(config))), format_bytes(limit.bytes_per_rank),
                     limit.arithmetic);
}

/// The largest message of which two fit, with their guards.
std::uint64_t largest_that_fits(const Config& config, const Backend::MemoryLimit& limit) {
  const std::size_t overhead = arena_bytes(0, unalign_bytes(config));
  return limit.bytes_per_rank > overhead ? (limit.bytes_per_rank - overhead) / 2 : 0;
}

/// Sets maxbytes and says why it is lower than asked.
void cap(Plan& plan, const Config& config, const Backend::MemoryLimit& limit) {
  const std::uint64_t most = largest_that_fits(config, limit);
  const std::uint64_t first = first_size(config);
  const std::uint64_t last = last_size(config);
  plan.maxbytes = std::min(last, most);
  if (first > most) {
    throw Error(ExitCode::not_possible,
                fmt::format("not enough memory for the first size: {}; lower -b or start fewer ranks per host",
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

/// Empty when the operation can run.
std::string why_skipped(const Config& config, const Operation& op, const Backend& backend) {
  const Collective& collective = *op.collective;
  if (collective.why_not != nullptr) {
    std::string reason = collective.why_not(op.problem);
    if (!reason.empty()) return reason;
  }
  if (config.placement == Placements::in && collective.in_place == nullptr) {
    return fmt::format("{} has no in-place form", collective.name);
  }
  return backend.why_unsupported(op).value_or("");
}

std::vector<int> roots_of(const Config& config, const Collective& collective, int nranks) {
  if (!config.all_roots && config.root >= nranks) {
    throw Error(ExitCode::bad_config, fmt::format("-r {}: there {} only {} rank{}, numbered from 0", config.root,
                                                  nranks == 1 ? "is" : "are", nranks, nranks == 1 ? "" : "s"));
  }
  if (!collective.has_root) return {0};
  if (!config.all_roots) return {config.root};
  std::vector<int> roots(nranks);
  for (int r = 0; r < nranks; ++r) roots[r] = r;
  return roots;
}

std::vector<std::optional<Op>> ops_of(const Config& config, const Collective& collective) {
  if (!collective.has_op) return {std::nullopt};
  return {config.ops.begin(), config.ops.end()};
}

/// A traffic matrix says all sizes itself: one row, whose memory the requested sizes do not tell.
void check_matrix_fits(const Plan& plan, const Config& config, const Backend::MemoryLimit& limit) {
  for (const Case& c : plan.cases) {
    if (c.nbytes <= largest_that_fits(config, limit)) continue;
    throw Error(ExitCode::not_possible, fmt::format("not enough memory for the alltoallv matrix: {}; scale it down "
                                                    "(NCCL_TESTS_ALLTOALLV_MATRIX_SCALE) or start fewer ranks per host",
                                                    need_words(config, limit, c.nbytes)));
  }
}

}  // namespace

std::vector<std::uint64_t> sweep_sizes(const Config& config, std::uint64_t maxbytes) {
  std::vector<std::uint64_t> sizes;
  if (!config.sizes.empty()) {
    for (std::uint64_t size : config.sizes) {
      if (size <= maxbytes) sizes.push_back(size);
    }
    std::sort(sizes.begin(), sizes.end());
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

Plan make_plan(const Config& config, const Collective& collective, const Backend& backend, const Traffic& traffic,
               const Backend::MemoryLimit& limit) {
  const int nranks = backend.nranks();
  const bool by_matrix = collective.id == CollectiveId::alltoallv && traffic.from_matrix();
  const std::vector<int> roots = roots_of(config, collective, nranks);
  const std::vector<std::optional<Op>> ops = ops_of(config, collective);
  Plan plan;
  plan.collective = &collective;
  plan.maxbytes = last_size(config);
  if (!by_matrix) cap(plan, config, limit);
  const std::vector<std::uint64_t> sizes =
      by_matrix ? std::vector{first_size(config)} : sweep_sizes(config, plan.maxbytes);
  const bool in_place = config.placement == Placements::in;
  for (DType dtype : config.dtypes) {
    for (const std::optional<Op>& op : ops) {
      for (int root : roots) {
        // The largest size speaks for all: a backend's limits are upper limits.
        const Problem largest = make_problem(collective, traffic, nranks, sizes.back(), dtype, root);
        const std::string reason = why_skipped(config, {&collective, largest, dtype, op, in_place}, backend);
        if (!reason.empty()) {
          plan.skipped.push_back({dtype, op, root, reason});
          continue;
        }
        if (plan.cases.size() + sizes.size() > kMaxRows) fail_too_many("rows");
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

}  // namespace busbar
