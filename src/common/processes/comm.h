#pragma once

#include "common/base/error.h"
#include "common/base/packed_fields.h"
#include "common/processes/launcher.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace busbar {

/// How values of several processes become one.
enum class Reduction : std::uint8_t { sum, min, max };

/// No process leaves wait() before all have entered.
class SmallBarrier {
 public:
  virtual ~SmallBarrier() = default;
  virtual void wait() = 0;
};

/// The transport of a Comm: processes that reach each other. Comm says what each function does; all but rank() and
/// size() are collective, send() and receive() over two processes. A failure of the transport ends the job.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual Carrier carrier() const = 0;
  /// At which the others reach this process, in figures; empty: not known here.
  virtual std::string address() const { return {}; }
  virtual void barrier() = 0;
  virtual void broadcast(void* data, std::size_t nbytes, int root) = 0;
  virtual void reduce(std::span<double> values, Reduction reduction) = 0;
  virtual void reduce(std::span<std::int64_t> values, Reduction reduction) = 0;
  virtual std::vector<std::string> gather(const std::string& text) = 0;
  virtual std::vector<std::byte> all_to_all(std::span<const std::byte> blocks) = 0;
  virtual void send(int to, double value) = 0;
  virtual double receive(int from) = 0;
  virtual std::unique_ptr<ProcessGroup> split(int color) = 0;
  virtual std::unique_ptr<ProcessGroup> split_by_host() = 0;
  virtual std::unique_ptr<SmallBarrier> small_barrier() = 0;
  /// Ends the whole job now, from any thread. Not collective.
  [[noreturn]] virtual void end_job(ExitCode code) = 0;
  /// Whether another process is known to have ended. Any thread; not collective.
  virtual bool peer_has_gone() const { return false; }
};

/// A group of processes and the few ways in which they agree. Every member function except rank() and size() is
/// collective: all processes of the group must call it, in the same order. Failures of the transport end the job. Only
/// for control; nothing of it is measured.
class Comm {
 public:
  explicit Comm(std::unique_ptr<ProcessGroup> group) : group_(std::move(group)) {}

  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }

  Carrier carrier() const { return group_->carrier(); }
  std::string address() const { return group_->address(); }
  [[noreturn]] void end_job(ExitCode code) const {
    group_->end_job(code);
    std::abort();  // g++ does not believe a virtual function that it does not return
  }
  bool peer_has_gone() const { return group_->peer_has_gone(); }

  void barrier() const { group_->barrier(); }

  /// `data` of process `root` on every process. nbytes must agree.
  void broadcast(void* data, std::size_t nbytes, int root) const { group_->broadcast(data, nbytes, root); }

  /// `text` of process `root` on every process; the lengths may differ beforehand.
  std::string broadcast(std::string text, int root) const;

  /// Element-wise over the processes, the result in place on every process.
  void sum(std::span<double> values) const { group_->reduce(values, Reduction::sum); }
  void min(std::span<double> values) const { group_->reduce(values, Reduction::min); }
  void max(std::span<double> values) const { group_->reduce(values, Reduction::max); }
  void sum(std::span<std::int64_t> values) const { group_->reduce(values, Reduction::sum); }
  void min(std::span<std::int64_t> values) const { group_->reduce(values, Reduction::min); }
  void max(std::span<std::int64_t> values) const { group_->reduce(values, Reduction::max); }
  double sum(double value) const { return one(value, Reduction::sum); }
  double min(double value) const { return one(value, Reduction::min); }
  double max(double value) const { return one(value, Reduction::max); }
  std::int64_t sum(std::int64_t value) const { return one(value, Reduction::sum); }
  std::int64_t min(std::int64_t value) const { return one(value, Reduction::min); }
  std::int64_t max(std::int64_t value) const { return one(value, Reduction::max); }

  /// Every process's text, in rank order, on process 0; empty elsewhere.
  std::vector<std::string> gather(const std::string& text) const { return group_->gather(text); }

  /// `blocks`: one of the same length per process, in rank order. Returns every process's block for this one.
  std::vector<std::byte> all_to_all(std::span<const std::byte> blocks) const { return group_->all_to_all(blocks); }

  /// Sends a number to another process, which waits for it.
  void send(int to, double value) const { group_->send(to, value); }
  double receive(int from) const { return group_->receive(from); }

  /// The processes of the same color, ordered as here.
  Comm split(int color) const { return Comm(group_->split(color)); }

  /// The processes of this host.
  Comm split_by_host() const { return Comm(group_->split_by_host()); }

  /// A barrier of our own; its messages meet no others. This Comm must outlive it.
  std::unique_ptr<SmallBarrier> small_barrier() const { return group_->small_barrier(); }

  /// For code that needs more of the transport (mpi_group.h).
  const ProcessGroup& group() const { return *group_; }

 private:
  template <class T>
  T one(T value, Reduction reduction) const {
    group_->reduce(std::span<T>(&value, 1), reduction);
    return value;
  }

  std::unique_ptr<ProcessGroup> group_;
};

/// Whether all processes are on one host; the same answer on all. Collective.
bool on_one_host(const Comm& world);

/// Runs `work` on every process of `comm` and turns the failure of any one into the same AgreedError on all: the lowest
/// failing process's text, with rank, host and `step`. Collective. Only for work that is over when it throws: work with
/// a pending collective must abort the job instead (dune-common's MPIGuard has the idea).
void collectively(const Comm& comm, const std::string& step, const std::function<void()>& work);

/// The same for work with a result.
template <class Work>
auto collectively_get(const Comm& comm, const std::string& step, Work&& work) {
  decltype(work()) result{};
  collectively(comm, step, [&] { result = work(); });
  return result;
}

/// Runs `work` on process 0 alone. Its failure becomes the same AgreedError on all, with its own text: what one process
/// does for all blames no rank. Collective.
void on_process0(const Comm& comm, const std::function<void()>& work);

/// Throws the same AgreedError on all if the processes do not all have the same value. Collective.
void require_same(const Comm& comm, const std::string& what, std::uint64_t value);

/// Every process's records on process 0, in the order of the processes; empty elsewhere. A record is a string, a number
/// or a type with visit_fields. Collective.
template <class T>
std::vector<T> gather_records(const Comm& comm, std::vector<T> mine) {
  std::vector<T> all;
  for (const std::string& of_process : comm.gather(pack_fields(std::move(mine)))) {
    std::vector<T> theirs = unpack_fields<std::vector<T>>(of_process);
    all.insert(all.end(), std::make_move_iterator(theirs.begin()), std::make_move_iterator(theirs.end()));
  }
  return all;
}

/// The same on every process. Collective.
template <class T>
std::vector<T> share_records(const Comm& comm, std::vector<T> mine) {
  return unpack_fields<std::vector<T>>(comm.broadcast(pack_fields(gather_records(comm, std::move(mine))), 0));
}

}  // namespace busbar
