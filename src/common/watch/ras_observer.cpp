#include "common/watch/ras_observer.h"

#include "common/watch/ras.h"

#include <chrono>
#include <exception>
#include <utility>

namespace busbar {

static constexpr std::chrono::milliseconds kRasLimit{3000};

RasObserver::~RasObserver() {
  if (thread_.joinable()) thread_.join();
}

void RasObserver::look_early() {
  const std::lock_guard thread_lock(thread_mutex_);
  if (thread_.joinable()) thread_.join();
  thread_ = std::thread([this] {
    std::string text;
    try {
      text = ask_ras(kRasLimit);
    } catch (const std::exception&) {
      text.clear();  // asked again at expiry, where the reason is told
    }
    const std::lock_guard lock(mutex_);
    earlier_ = std::move(text);
  });
}

RasEvidence RasObserver::look_again() {
  {
    const std::lock_guard thread_lock(thread_mutex_);
    if (thread_.joinable()) thread_.join();
  }
  std::string earlier;
  {
    const std::lock_guard lock(mutex_);
    earlier = earlier_;
  }
  RasEvidence answer;
  try {
    answer = read_ras(ask_ras(kRasLimit), earlier);
  } catch (const std::exception& e) {
    answer.why_not = e.what();
  }
  return answer;
}

}  // namespace busbar
