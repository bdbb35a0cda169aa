#pragma once

#include "common/backends/backend.h"
#include "common/base/injection.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace busbar {

/// A backend that forwards everything to another: the base of those that change one thing of it.
class WrappedBackend : public Backend {
 public:
  explicit WrappedBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  const BackendTraits& traits() const override { return inner_->traits(); }
  std::string library_version() const override { return inner_->library_version(); }
  int library_version_code() const override { return inner_->library_version_code(); }
  int header_version_code() const override { return inner_->header_version_code(); }
  int nranks() const override { return inner_->nranks(); }
  std::span<const int> local_ranks() const override { return inner_->local_ranks(); }
  int lanes() const override { return inner_->lanes(); }
  std::shared_ptr<void> settings_in_force() override { return inner_->settings_in_force(); }
  DeviceInfo device(int local) const override { return inner_->device(local); }
  std::optional<std::string> why_unsupported(const Operation& op) const override { return inner_->why_unsupported(op); }
  std::optional<std::string> note(const Operation& op) const override { return inner_->note(op); }
  InPlaceOffsets in_place_offsets(const Operation& op, int rank) const override {
    return inner_->in_place_offsets(op, rank);
  }
  std::vector<Block> expected(const Operation& op, int rank) const override { return inner_->expected(op, rank); }
  bool defines_result(const Operation& op) const override { return inner_->defines_result(op); }
  double creation_s() const override { return inner_->creation_s(); }
  std::vector<InitTimings> creation_phases() override { return inner_->creation_phases(); }
  std::unique_ptr<CommunicatorLifecycle> lifecycle(const Comm& world) override { return inner_->lifecycle(world); }
  MemoryLimit memory_limit(const Collective& c) const override { return inner_->memory_limit(c); }
  void* allocate(int local, std::size_t nbytes) override { return inner_->allocate(local, nbytes); }
  void borrow(int local, void* memory, std::size_t nbytes) override { inner_->borrow(local, memory, nbytes); }
  void give_back(int local, void* memory) noexcept override { inner_->give_back(local, memory); }
  void register_memory() override { inner_->register_memory(); }
  void release(int local, void* memory) noexcept override { inner_->release(local, memory); }
  void fill(int local, const Pattern& pattern, int rank, std::size_t first, std::size_t count, void* dst) override {
    inner_->fill(local, pattern, rank, first, count, dst);
  }
  void fill_neutral(int local, const Pattern& pattern, std::size_t count, void* dst) override {
    inner_->fill_neutral(local, pattern, count, dst);
  }
  void set_bytes(int local, void* dst, unsigned char byte, std::size_t nbytes) override {
    inner_->set_bytes(local, dst, byte, nbytes);
  }
  CheckResult check(int local, const Pattern& pattern, std::span<const Block> blocks, const void* recv) override {
    return inner_->check(local, pattern, blocks, recv);
  }
  void copy_to_host(int local, void* dst, const void* src, std::size_t nbytes) override {
    inner_->copy_to_host(local, dst, src, nbytes);
  }
  void copy_from_host(int local, void* dst, const void* src, std::size_t nbytes) override {
    inner_->copy_from_host(local, dst, src, nbytes);
  }
  void enter_lane(int lane) override { inner_->enter_lane(lane); }
  void group_begin(int lane) override { inner_->group_begin(lane); }
  void group_end(int lane) override { inner_->group_end(lane); }
  void enqueue(int lane, const Operation& op, std::span<const Buffers> buffers) override {
    inner_->enqueue(lane, op, buffers);
  }
  void synchronize(int lane) override { inner_->synchronize(lane); }
  Operation as_called(const Operation& op, std::uint64_t calls) const override { return inner_->as_called(op, calls); }
  std::optional<double> take_start_s(int lane) override { return inner_->take_start_s(lane); }
  bool asynchronous() const override { return inner_->asynchronous(); }
  void observe_begin() override { inner_->observe_begin(); }
  ShownAlgorithm observe_end(const Operation& op) override { return inner_->observe_end(op); }
  void capture_begin(int lane) override { inner_->capture_begin(lane); }
  void capture_end(int lane) override { inner_->capture_end(lane); }
  void replay(int lane) override {
    count(lane);  // nobody reads the inner one's counter
    inner_->replay(lane);
  }
  void capture_release(int lane) noexcept override { inner_->capture_release(lane); }
  void reserve_marks(int lane, int last) override { inner_->reserve_marks(lane, last); }
  void mark(int lane, int index) override { inner_->mark(lane, index); }
  double between(int lane, int from, int to) override { return inner_->between(lane, from, to); }
  std::vector<MemoryUse> memory_use() const override { return inner_->memory_use(); }
  std::optional<std::string> asynchronous_error() const override { return inner_->asynchronous_error(); }
  void abort() noexcept override { inner_->abort(); }

 protected:
  Backend& inner() { return *inner_; }
  const Backend& inner() const { return *inner_; }

 private:
  std::unique_ptr<Backend> inner_;
};

/// Spoils the data that the local rank is about to send, if the fault is of that kind. Call it before the operation.
void spoil_contribution(Injection::Kind fault, Backend& backend, const Pattern& pattern, const Operation& op,
                        const Buffers& buffers, int local);

/// Spoils the data that the local rank received, if the fault is of that kind. After the operation is complete.
void spoil_result(Injection::Kind fault, Backend& backend, const Operation& op, const Buffers& buffers, int local);

/// Reads and writes the local rank's result.
std::vector<std::byte> read_result(Backend& backend, const Operation& op, const Buffers& buffers, int local);
void write_result(Backend& backend, const std::vector<std::byte>& bytes, const Buffers& buffers, int local);

void sleep_for_seconds(double seconds);

/// --inject for one process: its communicators count their operations together and share the fault, which happens once.
class Injector {
 public:
  /// `process` of the job drives the ranks from process x ranks per process on. Null: breaks nothing. `wait` lets so
  /// many seconds pass for kind=late.
  Injector(const std::optional<Injection>& injection, int process,
           std::function<void(double)> wait = sleep_for_seconds);

  /// Throws Error(bad_config) if a job of `nranks` has no such rank or the fault cannot break this collective; the same
  /// on every rank.
  void check(int nranks, const Collective& collective) const;

  /// The backend, broken if it drives the rank; else unchanged.
  std::unique_ptr<Backend> around(std::unique_ptr<Backend> backend) const;

  /// Remarks for the header, so that nobody takes the results for real.
  std::vector<std::string> remarks() const;

  /// The state that the communicators share.
  struct Fault;

 private:
  std::shared_ptr<Fault> fault_;
  int process_;
};

}  // namespace busbar
