#include "driver/doctor/xid_listener.h"

#include "common/machine/answer_within.h"
#include "common/machine/nvml_device.h"
#include "common/machine/xid_table.h"
#include "driver/doctor/checks.h"
#include "driver/doctor/judge_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace busbar {

/// Owned by the listener and by the thread that asks, whichever lasts longer.
struct XidListener::Session {
  NvmlLibrary library;
  nvml::Calls calls;
  nvml::EventSet events = nullptr;
  std::map<NvmlDevice, std::string> gpus;  ///< those that are listened to
  bool started = false;

  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    if (events != nullptr) (void)calls.event_set_free(events);
    if (started) (void)calls.shutdown();
  }

  /// Whether some GPU is listened to.
  bool start(const std::string& name) {
    library = open_nvml(name);
    if (library == nullptr || !nvml::find_calls(library, calls)) return false;
    const bool able = calls.event_set_create != nullptr && calls.event_set_free != nullptr &&
                      calls.register_events != nullptr && calls.wait_event != nullptr;
    if (!able || calls.init() != nvml::kSuccess) return false;
    started = true;
    unsigned count = 0;
    if (calls.count(&count) != nvml::kSuccess || calls.event_set_create(&events) != nvml::kSuccess) return false;
    for (unsigned index = 0; index < count; ++index) {
      NvmlDevice device = nullptr;
      if (calls.handle(index, &device) != nvml::kSuccess) continue;
      if (calls.register_events(device, nvml::kEventXid, events) != nvml::kSuccess) continue;
      GpuFacts gpu;
      gpu.index = static_cast<int>(index);
      gpu.bus_id = nvml::bus_id_of(calls, device);
      gpus[device] = gpu_subject(gpu);
    }
    return !gpus.empty();
  }

  std::vector<XidEvent> drain() const {
    constexpr std::size_t kMost = 10'000;  // a GPU that reports without end must not hold the run up
    std::vector<XidEvent> heard;
    nvml::EventData data{};
    while (heard.size() < kMost && calls.wait_event(events, &data, 0) == nvml::kSuccess) {
      const auto gpu = gpus.find(data.device);
      if (data.type != nvml::kEventXid || gpu == gpus.end()) continue;
      heard.push_back({gpu->second, static_cast<int>(data.data)});
    }
    return heard;
  }
};

XidListener::XidListener(const std::string& library, double patience_s) : patience_s_(patience_s) {
  const auto answer = answer_within(patience_s, [library] {
    auto session = std::make_shared<Session>();
    return session->start(library) ? session : nullptr;
  });
  session_ = answer.value_or(nullptr);
}

std::vector<XidEvent> XidListener::heard() const {
  if (session_ == nullptr) return {};
  return answer_within(patience_s_, [session = session_] { return session->drain(); })
      .value_or(std::vector<XidEvent>());
}

std::vector<DoctorRow> xid_rows(std::span<const XidEvent> events) {
  std::map<std::pair<std::string, int>, int> times;
  for (const XidEvent& event : events) ++times[{event.gpu, event.xid}];
  std::vector<DoctorRow> rows;
  for (const auto& [key, count] : times) {
    const auto& [subject, number] = key;
    const XidMeaning& xid = xid_meaning(number);
    const std::string value = fmt::format("XID {}, {}", number, count == 1 ? "once" : fmt::format("{} times", count));
    const Outcome outcome = xid_outcome(xid, "");
    rows.push_back(outcome == Outcome::pass ? ok_row("gpu.xid", subject, value)
                                            : bad_row(outcome, "gpu.xid", subject, value, std::string(xid.meaning),
                                                      std::string(xid.advice)));
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const DoctorRow& a, const DoctorRow& b) { return a.outcome > b.outcome; });
  return rows;
}

}  // namespace busbar
