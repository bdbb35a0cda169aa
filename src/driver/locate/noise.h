#pragma once

#include <span>
#include <vector>

namespace busbar {

/// Coefficient of variation of what is measured again: `repeats` holds for each pair its measurements, one per round,
/// in the order of the rounds; values that are not above 0 are left out. From the median of the differences of
/// logarithms within a pair (that of two normal values is 0.954 of their deviation), so that a few dips do not count.
/// With 8 pairs or more what a whole round has in common is taken off first. NaN where no pair was measured twice.
double noise_of_repeats(std::span<const std::vector<double>> repeats);

/// The spread of different pairs: noise and what differs between them, so never less than the noise, and known better
/// than the repeats of a few pairs. From the median absolute deviation; NaN below 6 values.
double spread_of_pairs(std::span<const double> bandwidths);

/// How often to measure the same pairs again, for 16 differences at least: 4 times with four pairs or fewer, once
/// with 16.
int calibration_repeats(int npairs);

/// Below which share of the median a measurement is slow: `warn`, or 1 - 4 CV where noise needs it; from 10 % on, where
/// that would come to nothing, exp(-5 CV), because the noise is that of logarithms. (acceptance.md 4.2
/// has max() of the two, by which a noisier machine would have to be more even: 2 % of healthy measurements are below
/// 0.9 at a CV of 5 %. docs/locate.md)
double slow_threshold(double noise, double warn);

/// Above which nothing but gross faults can be told.
constexpr double kTooNoisy = 0.10;

}  // namespace busbar
