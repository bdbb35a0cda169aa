#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace busbar {

/// The answer of `ask` within `seconds`; else nullopt, and the thread that asks stays detached, because a driver or a
/// file server that is gone may never answer. `ask` must own all that it uses, and not throw.
template <class Ask>
auto answer_within(double seconds, Ask ask) -> std::optional<decltype(ask())> {
  using Answer = decltype(ask());
  auto promise = std::make_shared<std::promise<Answer>>();
  std::future<Answer> answer = promise->get_future();
  std::thread([promise, ask = std::move(ask)]() mutable { promise->set_value(ask()); }).detach();
  if (answer.wait_for(std::chrono::duration<double>(seconds)) != std::future_status::ready) return std::nullopt;
  return answer.get();
}

}  // namespace busbar
