#pragma once

#include <cstddef>

namespace fake_tells {

/// The functions as NCCL's tuner numbers them; transfers beyond.
enum Function { broadcast = 0, reduce = 1, all_gather = 2, reduce_scatter = 3, all_reduce = 4, send, receive };

/// What one rank's communicator keeps of the plugins.
struct Member {
  int rank = 0;
  int nranks = 1;
  void* profiler_context = nullptr;
  void* tuner_context = nullptr;
};

/// What is known when the API is called.
struct Task {
  Function function = all_reduce;
  std::size_t count = 0;
  std::size_t element_bytes = 1;
  const char* datatype = "";
  int peer = 0;
  bool symmetric = false;  ///< runs as a kernel over symmetric memory
  int wanted = 0;          ///< profiler events asked for at the time of the call
};

/// Loads the plugins that the environment names and introduces the rank to them.
void join(Member& member);
void leave(Member& member);

/// Logs what `function` took to make the rank's communicator; seconds that a test can know.
void made(const Member& member, const char* function);

/// The mask of wanted events, read at each call as NCCL does; counts the call.
int wanted_events();

/// Chooses, logs and delivers events, on the calling thread. False: the tuner failed the collective.
bool launch(Member& member, const Task& task);

}  // namespace fake_tells
