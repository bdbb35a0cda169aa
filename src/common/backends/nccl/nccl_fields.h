#pragma once

#include "collectives/dtype.h"
#include "collectives/op.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace busbar {

/// A number of ncclConfig_t.
struct NcclField {
  std::string_view name;      ///< NCCL's; in --vary after "nccl."
  int since = 0;              ///< the first NCCL that has it, NCCL's number
  std::string_view variable;  ///< sets it for a whole process (init.cc, envConfigOverride); empty: none
};

/// The numbers in which communicators of one job can differ, in NCCL's order (nccl.h of 2.19 to 2.32): FIELD(name,
/// since, variable).
#define BUSBAR_NCCL_FIELDS(FIELD)                                           \
  FIELD(cgaClusterSize, 21700, "NCCL_CGA_CLUSTER_SIZE")                     \
  FIELD(minCTAs, 21700, "NCCL_MIN_CTAS")                                    \
  FIELD(maxCTAs, 21700, "NCCL_MAX_CTAS")                                    \
  FIELD(collnetEnable, 22700, "NCCL_COLLNET_ENABLE")                        \
  FIELD(CTAPolicy, 22700, "NCCL_CTA_POLICY")                                \
  FIELD(nvlsCTAs, 22700, "NCCL_NVLS_NCHANNELS")                             \
  FIELD(nChannelsPerNetPeer, 22800, "NCCL_NCHANNELS_PER_NET_PEER")          \
  FIELD(nvlinkCentricSched, 22800, "NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE") \
  FIELD(graphUsageMode, 22900, "")                                          \
  FIELD(numRmaCtx, 22900, "NCCL_NUM_RMA_CTX")                               \
  FIELD(maxP2pPeers, 23000, "NCCL_P2P_MAX_PEERS")                           \
  FIELD(graphStreamOrdering, 23005, "")                                     \
  FIELD(launchOrderImplicit, 23100, "")                                     \
  FIELD(numRmaSig, 23100, "")                                               \
  FIELD(rmaEagerInit, 23100, "")                                            \
  FIELD(hostCftMode, 23100, "")                                             \
  FIELD(nvlsHostMode, 23200, "")

#define BUSBAR_FIELD_OF(name, since, variable) NcclField{#name, since, variable},
inline constexpr std::array kNcclFields{BUSBAR_NCCL_FIELDS(BUSBAR_FIELD_OF)};
#undef BUSBAR_FIELD_OF

/// A communicator's settings in ncclConfig_t; unset ones are NCCL's choice. NCCL refuses minCTAs alone: set both.
struct NcclFields {
  std::map<std::string, int, std::less<>> numbers;  ///< by the names of kNcclFields
  std::string net_name;                             ///< "IB", "Socket"; empty: NCCL's own choice
};

/// The oldest NCCL, header and library, that the suite can use: with ncclCommSplit, ncclMemAlloc, ncclCommRegister.
inline constexpr int kMinNcclVersion = 21900;
/// The first with windows (-R 2), and with types of 8-bit floating point.
inline constexpr int kNcclWithWindows = 22700;
/// The first whose profiler interface (version 4) is one of busbar's plugin (--show-algo, --show-prediction).
inline constexpr int kNcclWithProfiler = 22700;
inline constexpr int kNcclWithFp8 = 22400;
/// The first that runs the broadcasts of several roots in one group as one AllGatherV.
inline constexpr int kNcclWithAllGatherV = 22902;
/// The first whose communicators can expect few peers (maxP2pPeers).
inline constexpr int kNcclWithMaxP2pPeers = 23000;

/// "2.28.9" from ncclGetVersion's 22809; libraries before 2.9 had one digit less per part (2804 is 2.8.4).
inline std::string nccl_version_text(int code) {
  const int scale = code >= 10000 ? 10000 : 1000;
  return fmt::format("{}.{}.{}", code / scale, code % scale / 100, code % 100);
}

/// The bits of kMulsumFactor in the dtype, in the low bytes, for libraries that take the scalar as raw memory.
constexpr std::uint64_t mulsum_scalar_bits(DType dtype) {
  static_assert(kMulsumFactor == 2, "the floating-point bits below are those of 2.0");
  if (!is_float(dtype)) return kMulsumFactor;
  // 1.0 has the exponent field 1 - min_exponent and no stored significand bits.
  const FloatFormat& format = element_type(dtype).format;
  return static_cast<std::uint64_t>(2 - format.min_exponent) << (format.precision - 1);
}

}  // namespace busbar
