#include "common/measure/plan.h"

#include <bit>
#include <type_traits>

namespace busbar {
namespace {

/// FNV-1a's constants (http://www.isthe.com/chongo/tech/comp/fnv/) over 64-bit words instead of bytes.
class Hash {
 public:
  template <typename T>
  void add(T value) {
    std::uint64_t word = 0;
    if constexpr (std::is_floating_point_v<T>) {
      word = std::bit_cast<std::uint64_t>(static_cast<double>(value));
    } else {
      word = static_cast<std::uint64_t>(value);
    }
    value_ = (value_ ^ word) * 0x100000001b3ull;
    // A multiplication carries upwards only: without this, high bits would never reach the low ones.
    value_ ^= value_ >> 32;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ull;
};

void add_config(Hash& hash, const Config& c) {
  hash.add(c.nthreads);
  hash.add(c.ngpus);
  hash.add(c.iters);
  hash.add(c.agg_iters);
  hash.add(c.warmup_iters);
  hash.add(c.run_cycles);
  hash.add(c.average);
  hash.add(c.per_iter_timing);
  hash.add(c.per_iter_skip);
  hash.add(c.parallel_init);
  hash.add(c.check);
  hash.add(c.blocking);
  hash.add(c.stream_null);
  hash.add(c.timeout_s);
  hash.add(c.cudagraph);
  hash.add(c.local_register);
  hash.add(c.cta_policy.value_or(-1));
  hash.add(c.memory_report);
  hash.add(c.unalign);
  hash.add(c.backend);
  hash.add(c.placement);
  hash.add(c.dry_run);
  hash.add(c.topology);
  hash.add(c.ranks_per_gpu);
  hash.add(c.stat);
  hash.add(c.rel_ci);
  hash.add(c.min_time_s);
  hash.add(c.max_time_s);
  hash.add(c.cell_time_s);
  hash.add(c.epochs);
  hash.add(c.seed);
  hash.add(c.cadence);
  hash.add(c.per_rank);
  hash.add(c.show_algo);
  hash.add(c.show_prediction);
  hash.add(c.paranoid);
  hash.add(c.inject.has_value());
  if (c.inject) {
    hash.add(c.inject->rank);
    hash.add(c.inject->operation);
    hash.add(c.inject->kind);
    hash.add(c.inject->late_s);
  }
  // Whether these are asked for decides whether ranks gather what they report.
  hash.add(!c.output_file.empty());
  hash.add(!c.csv.empty());
}

void add_traffic(Hash& hash, const Traffic& traffic) {
  hash.add(traffic.spread);
  hash.add(traffic.dim);
  for (std::uint64_t nbytes : traffic.bytes) hash.add(nbytes);
}

}  // namespace

std::uint64_t digest(const Plan& plan, const Config& config) {
  Hash hash;
  hash.add(plan.collective->id);
  hash.add(plan.maxbytes);
  add_config(hash, config);
  hash.add(plan.cases.size());
  for (const Case& c : plan.cases) {
    hash.add(c.dtype);
    hash.add(c.op ? static_cast<int>(*c.op) : -1);
    hash.add(c.root);
    hash.add(c.problem.count);
    hash.add(c.problem.nranks);
    hash.add(c.nbytes);
  }
  // Once: it is the same of all cases, and a matrix has nranks^2 entries.
  if (!plan.cases.empty() && plan.collective->id == CollectiveId::alltoallv) {
    add_traffic(hash, *plan.cases.front().problem.traffic);
  }
  return hash.value();
}

}  // namespace busbar
