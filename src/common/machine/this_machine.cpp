#include "common/machine/this_machine.h"

#include "common/machine/job_interface.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

namespace busbar {

std::uint64_t this_boot() noexcept {
  std::array<char, 64> id{};
  const Socket file(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (::read(file.fd(), id.data(), id.size() - 1) <= 0) return 0;
  // FNV-1a; the text is random already.
  std::uint64_t sum = 0xcbf29ce484222325;
  for (const char c : id) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return sum;
}

std::string this_machine() {
  struct stat shared {};
  // Each mount of memory has a device number of its own.
  const std::uint64_t device = stat("/dev/shm", &shared) == 0 ? shared.st_dev : 0;
  return fmt::format("{:016x}{:016x}", this_boot(), device);
}

std::string full_host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace busbar
