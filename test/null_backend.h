#pragma once

#include "common/backends/backend.h"

#include <array>

namespace busbar {

/// A backend without memory and without a library behind it: every call returns at once and does nothing.
class NullBackend : public Backend {
 public:
  explicit NullBackend(int nranks = 1) : nranks_(nranks) {}

  const BackendTraits& traits() const override { return traits_of("null"); }
  std::string library_version() const override { return {}; }
  int library_version_code() const override { return 0; }
  int nranks() const override { return nranks_; }
  std::span<const int> local_ranks() const override { return locals_; }
  DeviceInfo device(int) const override { return {}; }
  std::optional<std::string> why_unsupported(const Operation&) const override { return std::nullopt; }
  MemoryLimit memory_limit(const Collective&) const override { return {}; }
  void* allocate(int, std::size_t) override { return nullptr; }
  void release(int, void*) noexcept override {}
  void fill(int, const Pattern&, int, std::size_t, std::size_t, void*) override {}
  void fill_neutral(int, const Pattern&, std::size_t, void*) override {}
  void set_bytes(int, void*, unsigned char, std::size_t) override {}
  CheckResult check(int, const Pattern&, std::span<const Block>, const void*) override { return {}; }
  void copy_to_host(int, void*, const void*, std::size_t) override {}
  void copy_from_host(int, void*, const void*, std::size_t) override {}
  void group_begin(int) override {}
  void group_end(int) override {}
  void enqueue(int, const Operation&, std::span<const Buffers>) override {}
  void synchronize(int) override {}
  void mark(int, int) override {}
  double between(int, int, int) override { return 0; }
  void abort() noexcept override {}

 private:
  int nranks_;
  std::array<int, 1> locals_{0};
};

}  // namespace busbar
