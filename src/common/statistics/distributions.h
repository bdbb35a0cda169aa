#pragma once

#include <cstddef>

namespace busbar {

/// The z with P(Z <= z) = p, for 0 < p < 1.
double normal_quantile(double p);

/// P(Bin(n, q) <= k), 0 < q < 1.
double binomial_cdf(std::size_t n, double q, std::ptrdiff_t k);

/// P(T > t) of Student's t with so many degrees of freedom, at least 1.
double student_t_upper(double t, int degrees);

/// The t with P(T <= t) = p, for 0 < p < 1.
double student_t_quantile(double p, int degrees);

}  // namespace busbar
