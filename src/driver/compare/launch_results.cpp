#include "driver/compare/launch_results.h"

#include "common/base/error.h"
#include "driver/compare/verdicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace busbar {
namespace {

constexpr int kLeastLaunches = 6;
constexpr double kLeastAdjustedP = 0.02;

void require_alike(const RunFile& first, const RunFile& other) {
  const auto differ = [&](std::string_view what, const auto& a, const auto& b) {
    throw Error(
        ExitCode::not_possible,
        fmt::format("the launches did not measure the same: {} {} and {} {}; see that the launch command starts "
                    "all alike",
                    what, a, what, b));
  };
  if (first.nranks != other.nranks) differ("ranks", first.nranks, other.nranks);
  if (first.backend != other.backend) differ("backend", first.backend, other.backend);
  if (first.collective != other.collective) differ("collective", first.collective, other.collective);
  if (first.cadence != other.cadence) differ("cadence", first.cadence, other.cadence);
  if (first.estimand != other.estimand) differ("estimand", first.estimand, other.estimand);
}

const RunCell* find_cell(const RunFile& run, const RunCell& like) {
  const auto found =
      std::find_if(run.cells.begin(), run.cells.end(), [&](const RunCell& c) { return c.same_cell(like); });
  return found == run.cells.end() ? nullptr : &*found;
}

std::string why_missing(const RunFile& run, const RunCell& like) {
  for (const RunSkip& skip : run.skipped) {
    if (skip.dtype == like.dtype && skip.redop == like.redop && skip.root == like.root) return skip.reason;
  }
  return "the launch did not measure this row";
}

VariantCell gather(const VariantRuns& of, const RunCell& like) {
  VariantCell cell;
  cell.why_not = of.why_not;
  if (!cell.why_not.empty()) return cell;
  for (const RunFile& run : of.runs) {
    const RunCell* found = find_cell(run, like);
    if (found == nullptr || !found->measured || !found->stats) {
      cell.why_not = why_missing(run, like);
      return cell;
    }
    cell.wrong += static_cast<std::uint64_t>(found->wrong.value_or(0));
    cell.rounds_s.push_back(found->stats->median_s);
    if (!found->algorithm.empty()) {
      cell.ran = {
          .algorithm = found->algorithm, .protocol = found->protocol, .channels = found->channels, .predicted_s = {}};
    }
  }
  return cell;
}

Case case_of(const RunCell& cell, const std::string& file, int nranks) {
  const std::optional<DType> dtype = parse_dtype(cell.dtype);
  const std::optional<Op> op = cell.redop == "none" ? std::nullopt : parse_op(cell.redop);
  if (!dtype || (cell.redop != "none" && !op)) {
    throw Error(ExitCode::not_possible,
                fmt::format("{}: unknown type or operation {} {}", file, cell.dtype, cell.redop));
  }
  Case c;
  c.dtype = *dtype;
  c.op = op;
  c.root = std::max(cell.root, 0);
  c.requested_bytes = cell.nbytes;
  c.nbytes = cell.nbytes;
  c.problem = {.count = cell.count, .elem_size = size_of(*dtype), .nranks = nranks, .root = c.root, .traffic = nullptr};
  return c;
}

bool same_table(const Case& a, const Case& b) { return a.dtype == b.dtype && a.op == b.op && a.root == b.root; }

}  // namespace

std::vector<Comparison> compare_runs(const Collective& collective, std::span<const VariantRuns> variants, double delta,
                                     bool in_place) {
  if (variants.empty() || variants.front().runs.empty()) {
    throw Error(ExitCode::not_possible,
                "no launch without settings measured anything: there is nothing to compare with");
  }
  const RunFile& first = variants.front().runs.front();
  Comparison empty;
  empty.collective = &collective;
  empty.backend = first.backend;
  empty.nranks = first.nranks;
  empty.nnodes = static_cast<int>(std::set<std::string>(first.hosts.begin(), first.hosts.end()).size());
  empty.delta = delta;
  empty.between_launches = true;
  for (const VariantRuns& of : variants) {
    empty.variants.push_back(of.variant);
    for (const RunFile& run : of.runs) require_alike(first, run);
  }

  std::vector<Comparison> comparisons;
  for (const RunCell& cell : first.cells) {
    if (cell.in_place != in_place || !cell.measured) continue;
    ComparedCase compared;
    compared.row_case = case_of(cell, first.name, first.nranks);
    compared.in_place = in_place;
    compared.rounds = static_cast<int>(variants.front().runs.size());
    const bool same = !comparisons.empty() && same_table(comparisons.back().cases.front().row_case, compared.row_case);
    if (!same) comparisons.push_back(empty);
    std::vector<ComparedCase>& cases = comparisons.back().cases;
    // Sizes below one element per rank round to the same case.
    if (!cases.empty() && cases.back().row_case.nbytes == compared.row_case.nbytes) continue;
    for (const VariantRuns& of : variants) compared.variants.push_back(gather(of, cell));
    judge_rounds(compared, delta, true);
    cases.push_back(std::move(compared));
  }
  for (Comparison& comparison : comparisons) conclude(comparison);
  return comparisons;
}

int launches_for(std::size_t cells) {
  double p = 2.0 / 924;  // 12 over 6
  int n = kLeastLaunches;
  while (p * static_cast<double>(cells) > kLeastAdjustedP) {
    ++n;
    // (2n over n) from (2n - 2 over n - 1): times (2n - 1) 2n / n^2.
    p *= static_cast<double>(n) / (2.0 * (2 * n - 1));
  }
  return n;
}

}  // namespace busbar
