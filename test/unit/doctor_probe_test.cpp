// Would catch: a probe that blocks or follows a link out of its root, or reads a recording otherwise than a machine.

#include "common/base/error.h"
#include "common/machine/probe.h"
#include "fake_root.h"

#include <catch2/catch.hpp>
#include <sys/stat.h>

using namespace busbar;
using Catch::Contains;

namespace {

using Names = std::vector<std::string>;

/// The same tree as files and as a recording.
void check_tree(const Probe& probe) {
  CHECK(probe.read("/sys/class/net/eth0/mtu") == "9000");
  CHECK(probe.read("/sys/class/net/eth0/../eth0/mtu") == "9000");
  CHECK_FALSE(probe.read("/sys/class/net/eth0"));
  CHECK_FALSE(probe.read("/sys/class/net/eth1/mtu"));
  CHECK(probe.list("/sys/class/net") == Names{"eth0"});
  CHECK(probe.list("/sys/devices") == Names{"pci0"});
  CHECK(probe.list("/none") == Names{});
  CHECK(probe.link_name("/sys/class/net/eth0/device") == "pci0");
  CHECK_FALSE(probe.link_name("/sys/class/net/eth0/mtu"));
  CHECK(probe.resolve("/sys/class/net/eth0") == "/sys/devices/pci0/net/eth0");
  CHECK_FALSE(probe.resolve("/sys/class/net/eth1"));
  CHECK(probe.exists("/sys/devices/pci0"));
  CHECK_FALSE(probe.exists("/sys/devices/pci"));
  CHECK(probe.usable("/sys/class/net/eth0/mtu"));
  CHECK_FALSE(probe.read("/loop"));
}

}  // namespace

TEST_CASE("files below a root and a recording are read alike", "[doctor]") {
  FakeRoot root;
  root.file("sys/devices/pci0/net/eth0/mtu", "9000\n");
  std::filesystem::create_directories(root.path() / "sys/class/net");
  std::filesystem::create_symlink("../../devices/pci0/net/eth0", root.path() / "sys/class/net/eth0");
  std::filesystem::create_symlink("../../../pci0", root.path() / "sys/devices/pci0/net/eth0/device");
  std::filesystem::create_symlink("loop", root.path() / "loop");
  Probe probe;
  probe.root = root.path();
  check_tree(probe);

  check_tree(
      probe_recorded("link /sys/class/net/eth0 ../../devices/pci0/net/eth0\n"
                     "file /sys/class/net/eth0/mtu 9000\n"
                     "link /sys/class/net/eth0/device ../../../pci0\n"
                     "link /loop loop\n",
                     "test"));
}

TEST_CASE("links do not lead out of a root", "[doctor]") {
  FakeRoot root;
  root.file("inside", "in\n");
  std::filesystem::create_symlink("/etc/passwd", root.path() / "absolute");
  std::filesystem::create_symlink("../../../../../../../../etc/passwd", root.path() / "up");
  std::filesystem::create_symlink("/inside", root.path() / "good");
  Probe probe;
  probe.root = root.path();
  CHECK_FALSE(probe.read("/absolute"));
  CHECK_FALSE(probe.read("/up"));
  CHECK_FALSE(probe.read("/../../../../../../etc/passwd"));
  CHECK(probe.read("/good") == "in");
}

TEST_CASE("what would block or never ends is not read", "[doctor]") {
  FakeRoot root;
  REQUIRE(::mkfifo((root.path() / "pipe").c_str(), 0600) == 0);
  root.file("large", std::string(3 << 20, 'x'));
  Probe probe;
  probe.root = root.path();
  CHECK_FALSE(probe.read("/pipe"));
  CHECK(probe.read("/large")->size() == 1 << 20);
  probe.root.assign(1, '/');  // g++ 12 warns of an assignment of "/"
  CHECK_FALSE(probe.read("/dev/zero"));
  CHECK_FALSE(probe.read("/dev"));
}

TEST_CASE("a later line of a recording replaces an earlier one", "[doctor]") {
  const Probe probe = probe_recorded(
      "# a machine\nfile /a/b 1\nfile /a/c two\\nlines \\\\ \\x41\\t.\nfile /a/b 3\nfile /ab 4\ngone /a/c\n"
      "denied /dev/x\nfolder /empty\nstatus /dev/shm/n 7 4096 12.5\nlimit memlock unlimited\nlimit nofile 1024\n"
      "mount /tmp 100 50\nenv A=B=C\ncpus 0-2,5\nuid 7\nhost h\nkernel 6.1\nnow 99.5\nnote mpi Open MPI\nkmsg one\n"
      "kmsg two\n",
      "test");
  CHECK(probe.read("/a/b") == "3");
  CHECK_FALSE(probe.exists("/a/c"));
  CHECK(probe.list("/") == Names{"a", "ab", "dev", "empty"});
  CHECK(probe.exists("/dev/x"));
  CHECK_FALSE(probe.usable("/dev/x"));
  CHECK(probe.status("/dev/shm/n")->nbytes == 4096);
  CHECK(probe.status("/dev/shm/n")->modified_s == 12.5);
  CHECK_FALSE(probe.limits.at("memlock"));
  CHECK(probe.limits.at("nofile") == 1024u);
  CHECK(probe.mounts.at("/tmp").free_bytes == 50);
  CHECK(probe.environment.at("A") == "B=C");
  CHECK(probe.cpus == std::vector<int>{0, 1, 2, 5});
  CHECK(probe.notes.at("mpi") == "Open MPI");
  CHECK(probe.kernel_log == std::vector<std::string>{"one", "two"});
  CHECK(probe_recorded("file /x two\\nlines \\\\ \\x41\\t.\n", "test").read("/x") == "two\nlines \\ A\t.");
  CHECK_FALSE(probe_recorded("host h\n", "test").kernel_log);
}

TEST_CASE("a bad line of a recording is named", "[doctor]") {
  for (const char* line : {"fil /a b", "file a b", "limit nofile many", "cpus x", "env A", "mount /tmp 1", "now ?"}) {
    INFO(line);
    try {
      probe_recorded(std::string("host h\n") + line + "\n", "NAME");
      FAIL("no error");
    } catch (const Error& e) {
      CHECK_THAT(e.what(), Contains("NAME, line 2"));
      CHECK(e.code() == ExitCode::bad_config);
    }
  }
}

TEST_CASE("this machine is seen by its probe", "[doctor]") {
  const Probe probe = probe_this_machine();
  CHECK(probe.host != "");
  CHECK(probe.host.find('.') == std::string::npos);
  CHECK(probe.kernel != "");
  CHECK(!probe.cpus.empty());
  CHECK(probe.limits.size() == 3);
  CHECK(probe.read("/proc/self/status"));
}
