#include "common/processes/sockets/socket_group.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace busbar {
namespace {

template <class T>
std::string_view bytes_of(std::span<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

template <class T>
T combined(T a, T b, Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return a + b;
    case Reduction::min:
      return std::min(a, b);
    case Reduction::max:
      return std::max(a, b);
  }
  return a;
}

/// A text with its length in front, so that texts of a subtree travel as one.
void append_text(std::string& all, std::string_view text) {
  const std::uint64_t length = text.size();
  all.append(reinterpret_cast<const char*>(&length), sizeof length).append(text);
}

class OwnBarrier final : public SmallBarrier {
 public:
  explicit OwnBarrier(std::unique_ptr<ProcessGroup> group) : group_(std::move(group)) {}
  void wait() override { group_->barrier(); }

 private:
  std::unique_ptr<ProcessGroup> group_;
};

}  // namespace

TreeShape tree_shape(int member, int size, int root) {
  // As if the root were 0: the parent of v is v without its lowest bit.
  const int v = (member - root + size) % size;
  const auto member_of = [&](int relative) { return (relative + root) % size; };
  TreeShape shape;
  const int lowest = v & -v;
  if (v != 0) shape.parent = member_of(v - lowest);
  for (int step = 1; step < size - v && (v == 0 || step < lowest); step *= 2)
    shape.children.push_back(member_of(v + step));
  return shape;
}

std::vector<int> circulant_neighbors(int member, int size) {
  std::set<int> neighbors;
  for (int step = 1; step < size; step *= 2) {
    neighbors.insert((member + step) % size);
    neighbors.insert((member - step + size) % size);
  }
  return {neighbors.begin(), neighbors.end()};
}

SocketGroup::SocketGroup(std::shared_ptr<Links> links, std::vector<int> members, std::uint32_t number)
    : links_(std::move(links)), members_(std::move(members)), number_(number) {
  rank_ = static_cast<int>(std::ranges::find(members_, links_->rank()) - members_.begin());
  links_->take_group(number);
  std::vector<int> neighbors = circulant_neighbors(rank_, size());
  for (int& neighbor : neighbors) neighbor = members_[static_cast<std::size_t>(neighbor)];
  links_->require(neighbors);
}

void SocketGroup::send_to(int member, FrameKind kind, std::string_view bytes) {
  links_->send(members_.at(static_cast<std::size_t>(member)), {.group = number_, .kind = kind, .length = bytes.size()},
               bytes);
}

std::string SocketGroup::receive_from(int member, FrameKind kind) {
  return links_->receive(members_.at(static_cast<std::size_t>(member)), number_, kind);
}

void SocketGroup::barrier() {
  const int p = size();
  for (int step = 1; step < p; step *= 2) {
    send_to((rank_ + step) % p, FrameKind::barrier, {});
    receive_from((rank_ - step + p) % p, FrameKind::barrier);
  }
}

void SocketGroup::broadcast(void* data, std::size_t nbytes, int root) {
  const TreeShape tree = tree_shape(rank_, size(), root);
  if (tree.parent >= 0) {
    const std::string bytes = receive_from(tree.parent, FrameKind::broadcast);
    std::memcpy(data, bytes.data(), std::min(nbytes, bytes.size()));
  }
  for (auto child = tree.children.rbegin(); child != tree.children.rend(); ++child)
    send_to(*child, FrameKind::broadcast, {static_cast<const char*>(data), nbytes});
}

/// To member 0 and back, so that all get the same bits.
template <class T>
void SocketGroup::reduce_all(std::span<T> values, Reduction reduction) {
  const TreeShape tree = tree_shape(rank_, size(), 0);
  std::vector<T> theirs(values.size());
  for (const int child : tree.children) {
    const std::string bytes = receive_from(child, FrameKind::reduce);
    std::memcpy(theirs.data(), bytes.data(), std::min(bytes.size(), values.size_bytes()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = combined(values[i], theirs[i], reduction);
  }
  if (tree.parent >= 0) send_to(tree.parent, FrameKind::reduce, bytes_of(values));
  broadcast(values.data(), values.size_bytes(), 0);
}

void SocketGroup::reduce(std::span<double> values, Reduction reduction) { reduce_all(values, reduction); }
void SocketGroup::reduce(std::span<std::int64_t> values, Reduction reduction) { reduce_all(values, reduction); }

std::vector<std::string> SocketGroup::gather(const std::string& text) {
  const TreeShape tree = tree_shape(rank_, size(), 0);
  std::string all;
  append_text(all, text);
  // The members of a child's subtree follow this one's own without a gap.
  for (const int child : tree.children) all += receive_from(child, FrameKind::gather);
  if (tree.parent >= 0) {
    send_to(tree.parent, FrameKind::gather, all);
    return {};
  }
  std::vector<std::string> texts;
  for (std::string_view rest = all; !rest.empty();) {
    std::uint64_t length = 0;
    std::memcpy(&length, rest.data(), sizeof length);
    rest.remove_prefix(sizeof length);
    texts.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  return texts;
}

std::vector<std::byte> SocketGroup::all_to_all(std::span<const std::byte> blocks) {
  const int p = size();
  const std::size_t length = blocks.size() / static_cast<std::size_t>(p);
  const auto copy = [&](std::byte* to, int to_block, const std::byte* from, int from_block) {
    std::memcpy(to + static_cast<std::size_t>(to_block) * length, from + static_cast<std::size_t>(from_block) * length,
                length);
  };
  std::vector<std::byte> moving(blocks.size()), mine(blocks.size());
  if (length == 0) return mine;
  for (int i = 0; i < p; ++i) copy(moving.data(), i, blocks.data(), (rank_ + i) % p);
  for (int step = 1; step < p; step *= 2) {
    std::string out;
    for (int i = 0; i < p; ++i) {
      if ((i & step) != 0)
        out.append(reinterpret_cast<const char*>(moving.data()) + static_cast<std::size_t>(i) * length, length);
    }
    send_to((rank_ + step) % p, FrameKind::exchange, out);
    const std::string in = receive_from((rank_ - step + p) % p, FrameKind::exchange);
    int at = 0;
    for (int i = 0; i < p; ++i)
      if ((i & step) != 0) copy(moving.data(), i, reinterpret_cast<const std::byte*>(in.data()), at++);
  }
  for (int i = 0; i < p; ++i) copy(mine.data(), (rank_ - i + p) % p, moving.data(), i);
  return mine;
}

void SocketGroup::send(int to, double value) {
  const int rank = members_.at(static_cast<std::size_t>(to));
  links_->require({&rank, 1});
  send_to(to, FrameKind::number, bytes_of(std::span(&value, 1)));
}

double SocketGroup::receive(int from) {
  const int rank = members_.at(static_cast<std::size_t>(from));
  links_->require({&rank, 1});
  const std::string bytes = receive_from(from, FrameKind::number);
  double value = 0;
  std::memcpy(&value, bytes.data(), std::min(sizeof value, bytes.size()));
  return value;
}

std::uint32_t SocketGroup::agree_on_number() {
  std::int64_t number = links_->next_group();
  reduce_all(std::span(&number, 1), Reduction::max);
  return static_cast<std::uint32_t>(number);
}

std::unique_ptr<ProcessGroup> SocketGroup::split(int color) {
  const std::uint32_t number = agree_on_number();
  std::string colors;
  for (const std::string& one : gather({reinterpret_cast<const char*>(&color), sizeof color})) colors += one;
  colors.resize(members_.size() * sizeof color);
  broadcast(colors.data(), colors.size(), 0);
  std::vector<int> part;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    int theirs = 0;
    std::memcpy(&theirs, colors.data() + i * sizeof theirs, sizeof theirs);
    if (theirs == color) part.push_back(members_[i]);
  }
  return std::make_unique<SocketGroup>(links_, std::move(part), number);
}

std::unique_ptr<ProcessGroup> SocketGroup::split_by_host() {
  const std::string& machine = links_->member(links_->rank()).machine;
  std::vector<int> part;
  for (const int member : members_)
    if (links_->member(member).machine == machine) part.push_back(member);
  return std::make_unique<SocketGroup>(links_, std::move(part), agree_on_number());
}

std::unique_ptr<SmallBarrier> SocketGroup::small_barrier() {
  return std::make_unique<OwnBarrier>(std::make_unique<SocketGroup>(links_, members_, agree_on_number()));
}

}  // namespace busbar
