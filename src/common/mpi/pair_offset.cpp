#include "common/mpi/pair_offset.h"

#include "common/mpi/mpi_handle.h"

#include <algorithm>
#include <limits>

namespace busbar {
namespace {

constexpr int kOffsetTag = 1;
constexpr double kPing = 1;
constexpr double kEnd = 0;

void send(const Comm& comm, int to, double value) { MPI_Send(&value, 1, MPI_DOUBLE, to, kOffsetTag, handle(comm)); }

double receive(const Comm& comm, int from) {
  double value = 0;
  MPI_Recv(&value, 1, MPI_DOUBLE, from, kOffsetTag, handle(comm), MPI_STATUS_IGNORE);
  return value;
}

}  // namespace

PairOffset measure_offset(const Comm& comm, int reference, const ReadSeconds& own) {
  constexpr int kMost = 100;
  constexpr int kLeast = 8;
  constexpr double kNearBest = 1.1;  // a round trip as short as the best shows that the best was no accident
  // On an oversubscribed host a round trip may take milliseconds: the drift within the envelope must stay negligible.
  constexpr double kLongest = 0.02;

  constexpr double kInf = std::numeric_limits<double>::infinity();
  double at_least = -kInf;
  double at_most = kInf;
  double best = kInf;
  const double start = own();
  for (int trip = 1; trip <= kMost; ++trip) {
    const double before = own();
    send(comm, reference, kPing);
    const double theirs = receive(comm, reference);
    const double after = own();
    at_least = std::max(at_least, before - theirs);
    at_most = std::min(at_most, after - theirs);
    best = std::min(best, after - before);
    if (trip >= kLeast && (after - before < kNearBest * best || after - start > kLongest)) break;
  }
  const double end = own();
  // Clocks that drift apart during a long envelope can cross its bounds; their distance then is the doubt.
  return {(start + end) / 2, (at_least + at_most) / 2, std::abs(at_most - at_least) / 2};
}

void end_offsets(const Comm& comm, int reference) { send(comm, reference, kEnd); }

void serve_offsets(const Comm& comm, int client, const ReadSeconds& own) {
  while (receive(comm, client) != kEnd) send(comm, client, own());
}

ClockModel fit_clock(std::span<const PairOffset> offsets) {
  const auto weight = [](const PairOffset& o) {
    constexpr double kFloor = 1e-8;  // no bound is better than the clock's own steps
    const double doubt = std::max(o.within_s, kFloor);
    return 1 / (doubt * doubt);
  };
  double weights = 0;
  double t_mean = 0;
  double y_mean = 0;
  for (const PairOffset& o : offsets) {
    weights += weight(o);
    t_mean += weight(o) * o.at_s;
    y_mean += weight(o) * o.ahead_s;
  }
  if (weights == 0) return {};
  t_mean /= weights;
  y_mean /= weights;
  double tt = 0;
  double ty = 0;
  double yy = 0;
  for (const PairOffset& o : offsets) {
    const double t = o.at_s - t_mean;
    const double y = o.ahead_s - y_mean;
    tt += weight(o) * t * t;
    ty += weight(o) * t * y;
    yy += weight(o) * y * y;
  }
  if (tt == 0) return {y_mean, 0};
  // Half a second of round trips of milliseconds would find drifts that no crystal has. So the scatter about the line
  // weighs against what is known of crystals beforehand (ridge regression; 20 millionths).
  constexpr double kUsualDrift = 20e-6;
  const double freedom = std::max<double>(1, static_cast<double>(offsets.size()) - 2);
  const double scatter = std::max(0.0, yy - ty * ty / tt) / freedom;
  const double drift = ty / (tt + scatter / (kUsualDrift * kUsualDrift));
  return {y_mean - drift * t_mean, drift};
}

}  // namespace busbar
