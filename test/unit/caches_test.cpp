// The bugs these would catch: an instruction cache, or the first level, taken for the cache that keeps messages, and a
// remark on rows whose times -e cannot change.

#include "common/machine/resources.h"
#include "common/measure/buffer_plan.h"
#include "fake_root.h"

#include <catch2/catch.hpp>

using namespace busbar;
using Catch::Contains;

namespace {

FakeRoot& cache(FakeRoot& root, int index, const std::string& level, const std::string& type, const std::string& size,
                const std::string& cpus) {
  const std::string folder = "sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
  return root.file(folder + "level", level + "\n")
      .file(folder + "type", type + "\n")
      .file(folder + "size", size + "\n")
      .file(folder + "shared_cpu_list", cpus + "\n");
}

Plan plan_of(std::vector<std::size_t> sizes) {
  Plan plan;
  for (const std::size_t nbytes : sizes) {
    Case row;
    row.nbytes = nbytes;
    plan.cases.push_back(row);
  }
  return plan;
}

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

/// A core's own of 512 KiB, and 32 MiB that eight share.
const std::vector<CpuCache> kCaches{{1, 32 * kKiB, 1}, {2, 512 * kKiB, 1}, {3, 32 * kMiB, 8}};

}  // namespace

TEST_CASE("a processor's caches for data are read as the kernel tells of them", "[machine][caches]") {
  FakeRoot root;
  CHECK(data_caches(root.path()).empty());
  cache(root, 0, "1", "Data", "32K", "0");
  cache(root, 1, "1", "Instruction", "32K", "0");
  cache(root, 2, "2", "Unified", "512K", "0,8");
  cache(root, 3, "3", "Unified", "32768K", "0-7,16-23");
  const std::vector<CpuCache> found = data_caches(root.path());
  REQUIRE(found.size() == 3);
  CHECK(found[0].level == 1);
  CHECK(found[0].nbytes == 32 * kKiB);
  CHECK(found[1].nbytes == 512 * kKiB);
  CHECK(found[1].cpus == 2);
  CHECK(found[2].level == 3);
  CHECK(found[2].nbytes == 32 * kMiB);
  CHECK(found[2].cpus == 16);
}

TEST_CASE("calls take as many messages in turn as there are calls and room", "[measure][buffers]") {
  Config config;
  CHECK(messages_in_turn(config, 64 * kMiB, kMiB) == 20);
  CHECK(messages_in_turn(config, 8 * kMiB, kMiB) == 8);
  CHECK(messages_in_turn(config, kMiB, kMiB) == 1);
  config.agg_iters = 3;
  CHECK(messages_in_turn(config, 64 * kMiB, kMiB) == 60);
  CHECK(messages_in_turn(config, 64 * kMiB, 0) == 1);
  config.stat = true;
  CHECK(messages_in_turn(config, 64 * kMiB, kMiB) == 32);
  CHECK(messages_in_turn(config, 64 * kMiB, 8) == 256);
  CHECK(messages_in_turn(config, 64 * kMiB, 64 * kMiB) == 1);
  config.buffers = BufferUse::reuse;
  CHECK(messages_in_turn(config, 64 * kMiB, kMiB) == 1);
  config.stat = false;
  CHECK(messages_in_turn(config, 64 * kMiB, kMiB) == 1);
  CHECK(widest_rotation(config, plan_of({8, kMiB})) == kMiB);
}

TEST_CASE("rows that fit a cache and are rotated over more are named", "[measure][buffers]") {
  const auto remark = [](const std::vector<std::size_t>& sizes, BufferUse use = BufferUse::rotate) {
    Config config;
    config.buffers = use;
    return rotation_remark(config, plan_of(sizes), kCaches, 2, 8);
  };
  // 20 times two of 64 KiB are 2.5 MiB: not in a core's own 512 KiB.
  CHECK_THAT(remark({8, 64 * kKiB, 64 * kMiB}), Contains("64 KiB messages fit in cache"));
  // Two of 4 KiB, 20 times, are 160 KiB and fit; two of 512 KiB do not, but two ranks' four fit what they share.
  CHECK_THAT(remark({4 * kKiB, 64 * kKiB, 512 * kKiB, 4 * kMiB, 64 * kMiB}), Contains("64 KiB to 4 MiB messages fit"));
  // Nothing to walk through.
  CHECK(remark({64 * kKiB}).empty());
  CHECK(remark({64 * kMiB, 128 * kMiB}).empty());
  CHECK(remark({64 * kKiB, 64 * kMiB}, BufferUse::reuse).empty());
  CHECK(rotation_remark(Config{}, plan_of({64 * kKiB, 64 * kMiB}), {}, 2, 8).empty());
}
