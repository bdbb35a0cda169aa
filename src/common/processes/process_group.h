#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// How values of several processes become one.
enum class Reduction : std::uint8_t { sum, min, max };

/// Nobody leaves wait() before all have entered.
class SmallBarrier {
 public:
  virtual ~SmallBarrier() = default;
  virtual void wait() = 0;
};

/// What carries a Comm: processes that reach each other. Comm says what each function does; all but rank() and size()
/// are collective, send() and receive() over two. A failure of the carrier ends the job.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void barrier() = 0;
  virtual void broadcast(void* data, std::size_t nbytes, int root) = 0;
  virtual void reduce(std::span<double> values, Reduction reduction) = 0;
  virtual void reduce(std::span<std::int64_t> values, Reduction reduction) = 0;
  virtual std::vector<std::string> gather(const std::string& text) = 0;
  virtual std::vector<std::byte> all_to_all(std::span<const std::byte> blocks) = 0;
  virtual void send(int to, double value) = 0;
  virtual double receive(int from) = 0;
  virtual std::unique_ptr<ProcessGroup> split(int color) = 0;
  virtual std::unique_ptr<ProcessGroup> split_by_host() = 0;
  virtual std::unique_ptr<SmallBarrier> small_barrier() = 0;
};

}  // namespace busbar
