#pragma once

#include <cstddef>
#include <vector>

namespace busbar {

/// The z with P(Z <= z) = p, for 0 < p < 1.
double normal_quantile(double p);

/// P(|Z| >= |z|).
double normal_two_sided_p(double z);

/// P(Bin(n, q) <= k), 0 < q < 1.
double binomial_cdf(std::size_t n, double q, std::ptrdiff_t k);

/// Of a null distribution given as how many ways lead to each value 0, 1, ...: P(X <= value).
double lower_tail(const std::vector<double>& ways, double value);

/// Ways to each Mann-Whitney U of groups of `n` and `m` untied values. Exact up to 20 + 20 and beyond.
std::vector<double> mann_whitney_ways(std::size_t n, std::size_t m);

/// P(T > t) of Student's t with so many degrees of freedom, at least 1.
double student_t_upper(double t, int degrees);

/// The t with P(T <= t) = p, for 0 < p < 1.
double student_t_quantile(double p, int degrees);

}  // namespace busbar
