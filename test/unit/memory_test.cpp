// Would catch: buffers sized by the host's free memory inside a container with far less, which ends in the OOM killer.

#include "common/base/error.h"
#include "common/machine/resources.h"
#include "fake_root.h"

#include <catch2/catch.hpp>

using namespace busbar;

namespace {

constexpr std::uint64_t kGiB = 1ull << 30;

/// 16 GiB available on the host.
FakeRoot host() {
  FakeRoot root;
  root.file("proc/meminfo", "MemTotal: 33554432 kB\nMemFree: 1 kB\nMemAvailable: 16777216 kB\n");
  return root;
}

}  // namespace

TEST_CASE("Without control groups MemAvailable decides", "[memory][cluster]") {
  const FakeRoot root = host();
  const HostMemory memory = free_host_memory(root.path());
  CHECK(memory.free_bytes == 16 * kGiB);
  CHECK(memory.source == "MemAvailable");
}

TEST_CASE("The tightest group above the process decides, file cache not counted as used", "[memory][cluster]") {
  FakeRoot root = host();
  root.cgroup_v2("/job/rank")
      .file("sys/fs/cgroup/job/rank/memory.max", "max\n")
      .file("sys/fs/cgroup/job/rank/memory.current", "1073741824\n")
      .file("sys/fs/cgroup/job/memory.max", "8589934592\n")      // 8 GiB
      .file("sys/fs/cgroup/job/memory.current", "4294967296\n")  // 4 GiB
      .file("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 1073741824\n");
  const HostMemory memory = free_host_memory(root.path());
  CHECK(memory.free_bytes == 5 * kGiB);
  CHECK(memory.source == "cgroup limit 8.0 GiB - 3.0 GiB used");
}

TEST_CASE("The throttling limit counts as the limit", "[memory][cluster]") {
  FakeRoot root = host();
  root.cgroup_v2("/job")
      .file("sys/fs/cgroup/job/memory.max", "8589934592\n")
      .file("sys/fs/cgroup/job/memory.high", "2147483648\n")
      .file("sys/fs/cgroup/job/memory.current", "1073741824\n");
  CHECK(free_host_memory(root.path()).free_bytes == 1 * kGiB);
}

TEST_CASE("A group over its limit leaves nothing, not a huge number", "[memory][cluster]") {
  FakeRoot root = host();
  root.cgroup_v2("/job")
      .file("sys/fs/cgroup/job/memory.max", "1073741824\n")
      .file("sys/fs/cgroup/job/memory.current", "2147483648\n");
  CHECK(free_host_memory(root.path()).free_bytes == 0);
}

TEST_CASE("A wide group does not widen what the host has", "[memory][cluster]") {
  FakeRoot root = host();
  root.cgroup_v2("/job")
      .file("sys/fs/cgroup/job/memory.max", "109951162777600\n")
      .file("sys/fs/cgroup/job/memory.current", "0\n");
  const HostMemory memory = free_host_memory(root.path());
  CHECK(memory.free_bytes == 16 * kGiB);
}

TEST_CASE("Version 1 limits count, and its largest number is not a limit", "[memory][cluster]") {
  FakeRoot root = host();
  root.file("proc/self/cgroup", "4:memory:/box/a\n")
      .file("proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n")
      .file("sys/fs/cgroup/memory/box/a/memory.limit_in_bytes", "9223372036854771712\n")
      .file("sys/fs/cgroup/memory/box/a/memory.usage_in_bytes", "5\n")
      .file("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "4294967296\n")
      .file("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "3221225472\n")
      .file("sys/fs/cgroup/memory/box/memory.stat", "inactive_file 1\ntotal_inactive_file 1073741824\n");
  CHECK(free_host_memory(root.path()).free_bytes == 2 * kGiB);
}

TEST_CASE("A host that does not tell its memory is an error", "[memory][cluster]") {
  const FakeRoot root;
  CHECK_THROWS_AS(free_host_memory(root.path()), Error);
}

TEST_CASE("This machine has memory", "[memory][cluster]") {
  const HostMemory memory = free_host_memory();
  CHECK(memory.free_bytes > 0);
}
