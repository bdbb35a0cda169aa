#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// A group of processes and the few ways in which they agree. Every member function but rank() and size() is
/// collective: all processes of the group must call it, in the same order. Failures of MPI itself end the job (errors
/// are fatal here: this communicator carries control, nothing that is measured).
class Comm {
 public:
  struct Impl;

  explicit Comm(std::unique_ptr<Impl> impl);
  Comm(Comm&&) noexcept;
  Comm& operator=(Comm&&) noexcept;
  ~Comm();

  int rank() const;
  int size() const;

  void barrier() const;

  /// `data` of process `root` on every process. nbytes must agree.
  void broadcast(void* data, std::size_t nbytes, int root) const;

  /// `text` of process `root` on every process; the lengths may differ beforehand.
  std::string broadcast(std::string text, int root) const;

  /// Element-wise over the processes, the result in place on every process.
  void sum(std::span<double> values) const;
  void min(std::span<double> values) const;
  void max(std::span<double> values) const;
  void sum(std::span<std::int64_t> values) const;
  void min(std::span<std::int64_t> values) const;
  void max(std::span<std::int64_t> values) const;
  double sum(double value) const;
  double min(double value) const;
  double max(double value) const;
  std::int64_t sum(std::int64_t value) const;
  std::int64_t min(std::int64_t value) const;
  std::int64_t max(std::int64_t value) const;

  /// Every process's text, in rank order, on process 0; empty elsewhere.
  std::vector<std::string> gather(const std::string& text) const;

  /// Every process's values (equal lengths), in rank order, on process 0; empty elsewhere.
  std::vector<double> gather(std::span<const double> values) const;

  /// The processes of the same color, ordered as here.
  Comm split(int color) const;

  /// The processes of this host.
  Comm split_by_host() const;

  /// For the files that include mpi.h.
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Whether all processes are on one host; the same answer on all. Collective.
bool on_one_host(const Comm& world);

}  // namespace busbar
