#pragma once

#include "common/backends/backend.h"
#include "common/backends/backend_traits.h"
#include "common/backends/nccl/nccl_fields.h"
#include "common/base/config.h"
#include "common/processes/comm.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace busbar {

/// What one host brings to the choice of a backend.
struct HostFacts {
  std::string hostname;
  int ranks = 0;                ///< on this host: processes x threads x GPUs per thread
  int gpus_on_bus = 0;          ///< NVIDIA GPUs on the PCI bus, with or without a driver
  int gpus_usable = 0;          ///< GPUs that its processes can use, each counted once
  std::string gpu_problem;      ///< why not all of them are usable; empty: no problem
  std::string library_problem;  ///< why the library for them cannot be loaded; empty: it can
};

/// The requested backend, or the first of the list for this memory that needs no other carrier.
BackendChoice backend_for(const Config& config, MemoryKind memory, Carrier carrier);

/// Decides which backend measures; never automatic. A cluster with GPUs is measured on host memory only if --backend
/// says so: anything that keeps a GPU from being used is an Error(not_possible) naming the hosts and the remedy.
/// `built_in`: whether this build has the backend for GPUs. Pure.
BackendChoice choose_backend(const Config& config, std::span<const HostFacts> hosts, bool built_in,
                             Carrier carrier = Carrier::mpi);

/// A backend ready to measure, with its remarks for the header.
struct OpenedBackend {
  std::unique_ptr<Backend> backend;
  std::vector<std::string> remarks;
  int ranks_per_host = 1;  ///< the most on any host
};

/// Chooses the backend from what every host has (choose_backend) and opens it on `group`, a part of `world`. Collective
/// over `world`. Throws AgreedError if the choice or the options do not fit the machines. `fields` are for NCCL's
/// communicator; `collective` is the only one that will run, null if there are several.
OpenedBackend open_backend(const Config& config, const Comm& world, const Comm& group, const NcclFields& fields = {},
                           const Collective* collective = nullptr);

/// Whether this configuration will measure host memory, judging by this host: no GPU here, or --backend mpi.
bool runs_on_host_memory(const Config& config);

/// GPUs that a library lets this process use.
struct LocalGpus {
  int count = 0;
  std::string problem;           ///< why there are none; empty: there are some
  std::vector<std::string> ids;  ///< unique per GPU (and MIG slice) of a host
};

/// What a library's folder needs to open its communicators.
struct OpenRequest {
  const Config& config;
  const Comm& world;
  const Comm& group;  ///< the part of the world to measure
  const Comm& host;   ///< the processes of this host
  const LocalGpus& gpus;
  const NcclFields& fields;
  const Collective* collective = nullptr;  ///< the only one that will run; null: any
};

/// How a library is found and opened; each folder defines one constant.
struct BackendEntry {
  bool built_in = true;                ///< false: all else is null, and choose_backend refuses it
  LocalGpus (*gpus)() = nullptr;       ///< queries the driver, without touching a GPU; null: measures host memory
  std::string (*problem)() = nullptr;  ///< why the library cannot be loaded here, or empty; null: it is linked
  OpenedBackend (*open)(const OpenRequest&) = nullptr;  ///< collective over the world
};

#define BUSBAR_DECLARE(name, Name) extern const BackendEntry k##Name##Entry;
BUSBAR_BACKENDS(BUSBAR_DECLARE)
#undef BUSBAR_DECLARE

/// `choice` is not automatic.
const BackendEntry& entry_of(BackendChoice choice);

}  // namespace busbar
