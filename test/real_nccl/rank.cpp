// One rank of a job without MPI, so that what NCCL logs is all that there is: real_nccl_rank FOLDER RANK NRANKS DEVICE
// WORD... The words are done in turn: init, use or use:COUNT (an all-reduce), window, split, destroy, abort; say:NAME
// leaves a file there, await:NAME waits for one, pause waits to be killed, kill kills. 1: NCCL refused.

#include "common/backends/nccl/cuda/nccl_library.h"
#include "common/base/error.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using busbar::NcclLibrary;

struct Rank {
  std::shared_ptr<const NcclLibrary> nccl = busbar::load_nccl();
  std::filesystem::path folder;
  int rank = 0, nranks = 0;
  std::vector<ncclComm_t> comms;
  cudaStream_t stream = nullptr;

  void await(const std::string& name) const {
    while (!exists(folder / name)) std::this_thread::sleep_for(1ms);
  }
  /// Appears whole.
  void leave(const std::string& name, const char* data, std::size_t nbytes) const {
    std::ofstream(folder / (name + ".part"), std::ios::binary).write(data, static_cast<std::streamsize>(nbytes));
    rename(folder / (name + ".part"), folder / name);
  }

  void init() {
    ncclUniqueId id;
    if (rank == 0) {
      BUSBAR_NCCL(*nccl, GetUniqueId(&id));
      leave("id", id.internal, sizeof id.internal);
    }
    await("id");
    std::ifstream(folder / "id", std::ios::binary).read(id.internal, sizeof id.internal);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    comms.emplace_back();
    BUSBAR_NCCL(*nccl, CommInitRankConfig(&comms.back(), nranks, id, rank, &config));
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  }

  void use(std::size_t count) {
    void* buffer = nullptr;
    BUSBAR_NCCL(*nccl, MemAlloc(&buffer, count * sizeof(float)));
    void* window = nullptr;
    if (with_window) BUSBAR_NCCL(*nccl, CommWindowRegister(comms.back(), buffer, count * sizeof(float), &window, 1));
    BUSBAR_NCCL(*nccl, AllReduce(buffer, buffer, count, ncclFloat, ncclSum, comms.back(), stream));
    cudaStreamSynchronize(stream);
    if (window != nullptr) BUSBAR_NCCL(*nccl, CommWindowDeregister(comms.back(), window));
    BUSBAR_NCCL(*nccl, MemFree(buffer));
  }

  void split() {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t child = nullptr;
    BUSBAR_NCCL(*nccl, CommSplit(comms.back(), 0, rank, &child, &config));
    comms.push_back(child);
  }

  void end(bool by_abort) {
    for (; !comms.empty(); comms.pop_back()) {
      if (by_abort) {
        BUSBAR_NCCL(*nccl, CommAbort(comms.back()));
      } else {
        BUSBAR_NCCL(*nccl, CommDestroy(comms.back()));
      }
    }
  }

  void obey(const std::string& word) {
    const std::string name = word.substr(0, word.find(':'));
    const std::string value = name.size() < word.size() ? word.substr(name.size() + 1) : "";
    if (name == "init") init();
    if (name == "use") use(value.empty() ? 1024 : std::stoul(value));
    if (name == "window") with_window = true;
    if (name == "split") split();
    if (name == "destroy" || name == "abort") end(name == "abort");
    if (name == "say") leave(value, "", 0);
    if (name == "await") await(value);
    if (name == "pause") pause();
    if (name == "kill") std::raise(SIGKILL);
  }

  bool with_window = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  try {
    Rank rank;
    rank.folder = argv[1];
    rank.rank = std::atoi(argv[2]);
    rank.nranks = std::atoi(argv[3]);
    if (cudaSetDevice(std::atoi(argv[4])) != cudaSuccess) return 3;
    for (int i = 5; i < argc; ++i) rank.obey(argv[i]);
    return 0;
  } catch (const busbar::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
