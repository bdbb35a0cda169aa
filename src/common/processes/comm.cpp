#include "common/processes/comm.h"

#include <cstring>

namespace busbar {

std::string Comm::broadcast(std::string text, int root) const {
  std::int64_t length = static_cast<std::int64_t>(text.size());
  broadcast(&length, sizeof length, root);
  text.resize(static_cast<std::size_t>(length));
  broadcast(text.data(), text.size(), root);
  return text;
}

std::vector<double> Comm::gather(std::span<const double> values) const {
  const std::string own(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  std::vector<double> all;
  for (const std::string& bytes : gather(own)) {
    std::vector<double> theirs(bytes.size() / sizeof(double));
    std::memcpy(theirs.data(), bytes.data(), theirs.size() * sizeof(double));
    all.insert(all.end(), theirs.begin(), theirs.end());
  }
  return all;
}

bool on_one_host(const Comm& world) { return world.min(std::int64_t{world.split_by_host().size()}) == world.size(); }

}  // namespace busbar
