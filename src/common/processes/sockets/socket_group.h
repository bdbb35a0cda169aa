#pragma once

#include "common/processes/comm.h"
#include "common/processes/sockets/links.h"

#include <vector>

namespace busbar {

/// A member's place in the binomial tree of a group. All edges join members at distances of 1, 2, 4, ... (modulo the
/// size), whatever the root.
struct TreeShape {
  int parent = -1;            ///< -1: the root
  std::vector<int> children;  ///< nearest first; each brings as many members as its distance, or what is left
};

TreeShape tree_shape(int member, int size, int root);

/// The members at distances of 1, 2, 4, ... on both sides, ascending: those of every tree and of the barrier.
std::vector<int> circulant_neighbors(int member, int size);

/// Processes that reach each other over TCP connections of ours. Every operation is a binomial tree or a dissemination
/// on the connections at distances of 1, 2, 4, ...
class SocketGroup final : public ProcessGroup {
 public:
  /// `members`: ranks of the job, this process among them; `number` is new to all of them. Collective over the members.
  SocketGroup(std::shared_ptr<Links> links, std::vector<int> members, std::uint32_t number);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  Carrier carrier() const override { return Carrier::sockets; }
  std::string address() const override { return links_->member(links_->rank()).ip; }
  void barrier() override;
  void broadcast(void* data, std::size_t nbytes, int root) override;
  void reduce(std::span<double> values, Reduction reduction) override;
  void reduce(std::span<std::int64_t> values, Reduction reduction) override;
  std::vector<std::string> gather(const std::string& text) override;
  /// Bruck's algorithm: log2(p) messages of half the data each, on the same connections (Bruck et al., IEEE TPDS 1997).
  std::vector<std::byte> all_to_all(std::span<const std::byte> blocks) override;
  void send(int to, double value) override;
  double receive(int from) override;
  std::unique_ptr<ProcessGroup> split(int color) override;
  std::unique_ptr<ProcessGroup> split_by_host() override;
  /// The same dissemination as barrier(), with a number of its own.
  std::unique_ptr<SmallBarrier> small_barrier() override;
  void end_job(ExitCode code) override { links_->end_job(code); }
  bool peer_has_gone() const override { return links_->has_ended(); }

 private:
  template <class T>
  void reduce_all(std::span<T> values, Reduction reduction);
  void send_to(int member, FrameKind kind, std::string_view bytes);
  std::string receive_from(int member, FrameKind kind);
  std::uint32_t agree_on_number();

  std::shared_ptr<Links> links_;
  std::vector<int> members_;
  std::uint32_t number_;
  int rank_ = 0;
};

}  // namespace busbar
