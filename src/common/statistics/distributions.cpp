#include "common/statistics/distributions.h"

#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace busbar {
namespace {

namespace bmp = boost::math::policies;
/// Infinite or no number where there is no answer, as the standard library's functions; no detour through long double.
using Quiet = bmp::policy<bmp::domain_error<bmp::ignore_error>, bmp::pole_error<bmp::ignore_error>,
                          bmp::overflow_error<bmp::ignore_error>, bmp::evaluation_error<bmp::ignore_error>,
                          bmp::promote_double<false>>;
using Normal = boost::math::normal_distribution<double, Quiet>;
using Binomial = boost::math::binomial_distribution<double, Quiet>;
using StudentT = boost::math::students_t_distribution<double, Quiet>;

}  // namespace

double normal_two_sided_p(double z) { return std::erfc(std::fabs(z) / std::sqrt(2.0)); }

double normal_quantile(double p) { return quantile(Normal(), p); }

double binomial_cdf(std::size_t n, double q, std::ptrdiff_t k) {
  if (k < 0) return 0;
  if (static_cast<std::size_t>(k) >= n) return 1;
  return cdf(Binomial(static_cast<double>(n), q), static_cast<double>(k));
}

double lower_tail(const std::vector<double>& ways, double value) {
  if (value < 0) return 0;
  const auto count = static_cast<std::ptrdiff_t>(std::min(std::floor(value) + 1, static_cast<double>(ways.size())));
  return std::accumulate(ways.begin(), ways.begin() + count, 0.0) / std::accumulate(ways.begin(), ways.end(), 0.0);
}

std::vector<double> mann_whitney_ways(std::size_t n, std::size_t m) {
  // U of the first group is its rank sum less n(n+1)/2: choose n of the ranks 1 .. n+m. A row per number chosen.
  std::vector<std::vector<double>> chosen(n + 1, std::vector<double>(n * (n + m) + 1));
  chosen[0][0] = 1;
  for (std::size_t rank = 1; rank <= n + m; ++rank) {
    for (std::size_t count = std::min(rank, n); count >= 1; --count) {
      for (std::size_t sum = rank; sum < chosen[count].size(); ++sum) {
        chosen[count][sum] += chosen[count - 1][sum - rank];
      }
    }
  }
  const auto least = static_cast<std::ptrdiff_t>(n * (n + 1) / 2);
  const auto most = least + static_cast<std::ptrdiff_t>(n * m);
  return {chosen[n].begin() + least, chosen[n].begin() + most + 1};
}

double student_t_upper(double t, int degrees) { return cdf(complement(StudentT(degrees), t)); }

double student_t_quantile(double p, int degrees) { return quantile(StudentT(degrees), p); }

}  // namespace busbar
