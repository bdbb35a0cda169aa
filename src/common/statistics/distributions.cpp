#include "common/statistics/distributions.h"

#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>

namespace busbar {
namespace {

namespace bmp = boost::math::policies;
/// Infinite or NaN if there is no answer, as in the standard library's functions; no detour through long double.
using Quiet = bmp::policy<bmp::domain_error<bmp::ignore_error>, bmp::pole_error<bmp::ignore_error>,
                          bmp::overflow_error<bmp::ignore_error>, bmp::evaluation_error<bmp::ignore_error>,
                          bmp::promote_double<false>>;
using Normal = boost::math::normal_distribution<double, Quiet>;
using Binomial = boost::math::binomial_distribution<double, Quiet>;
using StudentT = boost::math::students_t_distribution<double, Quiet>;

}  // namespace

double normal_quantile(double p) { return quantile(Normal(), p); }

double binomial_cdf(std::size_t n, double q, std::ptrdiff_t k) {
  if (k < 0) return 0;
  if (static_cast<std::size_t>(k) >= n) return 1;
  return cdf(Binomial(static_cast<double>(n), q), static_cast<double>(k));
}

double student_t_upper(double t, int degrees) { return cdf(complement(StudentT(degrees), t)); }

double student_t_quantile(double p, int degrees) { return quantile(StudentT(degrees), p); }

}  // namespace busbar
