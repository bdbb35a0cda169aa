#pragma once

#include "collectives/collective.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace busbar {

// The border between a program and libbusbar_gloo.so, which holds all code that includes Gloo's headers and nothing
// else. Both come from one build. Plain data and exceptions of the standard library cross the border.

/// The algorithm of all_reduce.
enum class GlooAlgorithm : std::uint8_t { unspecified, ring, bcube };

/// Room for the address of one socket: gloo::transport::Address::kMaxByteSize.
inline constexpr std::size_t kGlooAddressBytes = 192;

struct GlooPlace {
  int rank = 0;
  int nranks = 1;
  const char* ip = "127.0.0.1";  ///< of the interface to use
  GlooAlgorithm all_reduce = GlooAlgorithm::unspecified;
};

/// A reduction in the two forms that Gloo calls.
struct GlooReduction {
  /// c[i] = a[i] op b[i]; c may be a or b.
  void (*reduce)(void* c, const void* a, const void* b, std::size_t count) = nullptr;
  /// x[i] = x[i] op y[i]. Its real type is void (*)(T* x, const T* y, std::size_t count) with the unsigned integer T of
  /// the element's size.
  void (*into)() = nullptr;
};

/// One collective call without its buffers. Never of 0 bytes, except a barrier: Gloo divides by the size.
struct GlooCall {
  CollectiveId collective = CollectiveId::all_reduce;
  std::size_t count = 0;  ///< as in Problem [elements]
  std::size_t elem_size = 1;
  int root = 0;
  bool in_place = false;
  GlooReduction reduction;                             ///< if the collective reduces
  std::vector<std::int64_t> send_nbytes, recv_nbytes;  ///< alltoallv, by peer
  std::vector<std::size_t> block_nbytes;               ///< all_gatherv, by rank
  PingpongPattern pattern = PingpongPattern::latency;  ///< pingpong, as the next two
  int window = 1;
  int peer = 0;
};

/// A communicator of Gloo's. Its functions throw Gloo's exceptions, all derived from std::exception.
class GlooContext {
 public:
  virtual ~GlooContext() = default;

  /// The addresses at which this rank listens for each other: nranks pieces of kGlooAddressBytes.
  virtual std::vector<std::byte> addresses() const = 0;

  /// Connects to all ranks; `for_me`: the pieces that the other ranks have for this one. Collective; if it throws, the
  /// others still wait.
  virtual void connect(std::span<const std::byte> for_me) = 0;

  /// Prepares all that the next calls share, apart from their buffers; for reduce_scatter in place also what belongs to
  /// each of `buffers`. Collective.
  virtual void prepare(const GlooCall& call, std::span<void* const> buffers) = 0;

  /// The prepared call. Collective.
  virtual void run(void* send, void* recv) = 0;
};

/// What libbusbar_gloo.so exports under the name kGlooSymbol.
struct GlooModule {
  int border = 0;  ///< kGlooBorder at its build
  const char* version = "";
  std::unique_ptr<GlooContext> (*open)(const GlooPlace&) = nullptr;
};

inline constexpr const char* kGlooSymbol = "busbar_gloo_module";
/// Raised with every change of this file.
inline constexpr int kGlooBorder = 2;

}  // namespace busbar
