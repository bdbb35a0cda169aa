#pragma once

namespace busbar {

/// P(T > t) of Student's t with so many degrees of freedom, at least 1 (Abramowitz & Stegun 26.7.3 and 26.7.4). Good to
/// 1e-14 absolute.
double student_t_upper(double t, int degrees);

/// The t with P(T <= t) = p, for 0 < p < 1.
double student_t_quantile(double p, int degrees);

}  // namespace busbar
