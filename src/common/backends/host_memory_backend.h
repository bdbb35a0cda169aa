#pragma once

#include "common/backends/backend.h"
#include "common/base/config.h"
#include "common/processes/comm.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace busbar {

/// What libraries on host memory share: one rank per process, buffers, data, marks by the host's clock, and calls that
/// have ended when they return.
class HostMemoryBackend : public Backend {
 public:
  int library_version_code() const override { return 0; }
  int nranks() const override { return nranks_; }
  std::span<const int> local_ranks() const override { return locals_; }
  DeviceInfo device(int local) const override;

  /// Both libraries leave a reduction at the start of the buffer; NCCL leaves a reduce_scatter's at rank * count.
  InPlaceOffsets in_place_offsets(const Operation& op, int rank) const override;
  double creation_s() const override { return creation_s_; }

  void* allocate(int local, std::size_t nbytes) override;
  void release(int /*local*/, void* memory) noexcept override { std::free(memory); }
  void fill(int /*local*/, const Pattern& pattern, int rank, std::size_t first, std::size_t count, void* dst) override {
    busbar::fill(pattern, rank, first, count, dst);
  }
  void fill_neutral(int /*local*/, const Pattern& pattern, std::size_t count, void* dst) override {
    busbar::fill_neutral(pattern, count, dst);
  }
  void set_bytes(int /*local*/, void* dst, unsigned char byte, std::size_t nbytes) override {
    std::memset(dst, byte, nbytes);
  }
  CheckResult check(int local, const Pattern& pattern, std::span<const Block> blocks, const void* recv) override;
  void copy_to_host(int /*local*/, void* dst, const void* src, std::size_t nbytes) override {
    std::memcpy(dst, src, nbytes);
  }
  void copy_from_host(int /*local*/, void* dst, const void* src, std::size_t nbytes) override {
    std::memcpy(dst, src, nbytes);
  }

  void synchronize(int /*lane*/) override {}
  void reserve_marks(int lane, int last) override;
  void mark(int /*lane*/, int index) override { marks_.at(index) = Clock::now(); }
  double between(int lane, int from, int to) override;
  std::vector<MemoryUse> memory_use() const override;
  void abort() noexcept override {}  // the process ends next, and with it everything

 protected:
  /// `ranks_on_host`: processes that share this host's memory.
  HostMemoryBackend(const Comm& group, int ranks_on_host);

  /// Time of creation: since `begin`, when this process had `resident` bytes.
  void created(Clock::duration took, std::int64_t resident_before);
  /// For a library that allocates so many copies of a message.
  MemoryLimit limit_with(double copies, std::string_view library) const;

  int rank() const { return locals_[0]; }
  int ranks_on_host() const { return ranks_on_host_; }

 private:
  int ranks_on_host_;
  int nranks_;
  std::array<int, 1> locals_;
  std::vector<Clock::time_point> marks_;
  double creation_s_ = 0;
  std::int64_t start_bytes_;
  std::int64_t library_bytes_ = 0;
  std::int64_t buffer_bytes_ = 0;
};

/// Throws Error(not_possible) for the options that no library on host memory can honor (-G -D -R -x -y -p,
/// --ranks-per-gpu, and -g or -t above 1, because a process is one rank), naming option, backend and remedy.
void refuse_gpu_options(const Config& config, const BackendTraits& traits, int nprocesses, Carrier carrier);
/// The same on all processes of `world`. Collective.
void check_host_options(const Comm& world, const Config& config, const BackendTraits& traits);

}  // namespace busbar
