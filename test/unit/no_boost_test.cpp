// Would catch: a build without Boost.Math whose intervals differ from those of a build with it.

#include "common/statistics/distributions.h"

#define normal_quantile own_normal_quantile
#define binomial_cdf own_binomial_cdf
#define student_t_upper own_student_t_upper
#define student_t_quantile own_student_t_quantile
#include "common/statistics/no_boost.cpp"
#undef normal_quantile
#undef binomial_cdf
#undef student_t_upper
#undef student_t_quantile

#include <catch2/catch.hpp>

using namespace busbar;

TEST_CASE("without Boost.Math, quantiles and probabilities are the same", "[statistics]") {
  const auto same = [](double value, double boost) {
    INFO(value << " instead of " << boost);
    CHECK((value == boost || std::abs(value - boost) <= 1e-9 * std::abs(boost) + 1e-15));
  };
  for (const double p : {1e-12, 1e-4, 0.005, 0.025, 0.3, 0.5, 0.75, 0.975, 0.99999}) {
    same(own_normal_quantile(p), normal_quantile(p));
    for (const int degrees : {1, 2, 3, 7, 30, 1000, 100000})
      same(own_student_t_quantile(p, degrees), student_t_quantile(p, degrees));
  }
  for (const double t : {-7.0, -1.0, 0.0, 0.3, 2.0, 12.0, 300.0}) {
    for (const int degrees : {1, 2, 5, 40, 4000}) same(own_student_t_upper(t, degrees), student_t_upper(t, degrees));
  }
  for (const std::size_t n : {1, 5, 40, 1000, 1000000}) {
    for (const double q : {0.001, 0.2, 0.5, 0.97}) {
      for (const double part : {0.0, 0.1, 0.2, 0.5, 0.9, 0.99}) {
        const auto k = static_cast<std::ptrdiff_t>(part * static_cast<double>(n));
        INFO("n " << n << " q " << q << " k " << k);
        same(own_binomial_cdf(n, q, k), binomial_cdf(n, q, k));
      }
    }
  }
}
