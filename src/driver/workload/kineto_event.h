#pragma once

#include "common/record/json_events.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Categories of a Kineto trace that matter.
enum class KinetoCategory : std::uint8_t { unknown, op, annotation, gpu_annotation, kernel, copy, other };

inline constexpr std::int64_t kNoTime = std::numeric_limits<std::int64_t>::min();

/// An event of a Kineto trace, as far as it matters here. Absent numbers are -1.
struct KinetoEvent {
  KinetoCategory category = KinetoCategory::unknown;
  bool complete = true;  ///< phase X
  std::string name;
  std::int64_t tid = -1;
  std::int64_t begin_ns = kNoTime, time_ns = kNoTime;
  // Its args.
  std::int64_t external_id = -1, device = -1, in_elements = -1, out_elements = -1, group_size = -1, rank = -1;
  std::string collective, dtype, group, description, ranks;
  bool unequal = false;                ///< sizes per rank are given
  std::vector<std::int64_t> elements;  ///< of each input; -1: no tensor
  std::vector<std::string> types;      ///< of each input
  std::size_t inputs = 0;              ///< how many, tensors or not

  void clear();
};

/// One of an event's args, and where it goes.
struct KinetoArg {
  enum class Shape : std::uint8_t { one, splits, ranks, dims, types };
  std::string_view name;
  std::int64_t KinetoEvent::*number = nullptr;
  std::string KinetoEvent::*text = nullptr;
  Shape shape = Shape::one;
};

/// What a trace says of its job ("distributedInfo"), and of each of its groups ("pg_config"): texts and numbers by key.
struct KinetoJob {
  using Facts = std::map<std::string, std::string>;
  Facts facts;
  std::vector<Facts> groups;
};

/// Splits a Kineto trace into its events; those that cannot matter are passed over.
class KinetoEvents : public JsonEvents {
 public:
  explicit KinetoEvents(std::function<void(KinetoEvent&)> on_event) : on_event_(std::move(on_event)) {}

  void begin_object() override;
  void end_object() override;
  void begin_list() override;
  void end_list() override;
  void key(std::string& name) override;
  void string(std::string& value) override;
  void whole(std::int64_t value) override;
  void number(double value, const std::string& text) override;
  void other() override {}

  const KinetoJob& job() const { return job_; }
  bool is_trace() const { return seen_events_; }

 private:
  enum class Part : std::uint8_t { none, events, info };
  enum class Field : std::uint8_t { none, phase, category, name, tid, begin, time, args };
  static Field field_of(const std::string& name);
  bool args_matter() const;
  void add_fact(std::string_view text);
  void add_text(std::string_view text);
  void add_extent(std::int64_t value);
  void end_extents();

  std::function<void(KinetoEvent&)> on_event_;
  KinetoEvent event_;
  KinetoJob job_;
  std::string fact_;  ///< the key of what a trace says of its job
  int depth_ = 0;
  int skipped_ = 0;  ///< the depth of what is passed over; 0: nothing
  Part part_ = Part::none;
  Field field_ = Field::none;
  const KinetoArg* arg_ = nullptr;  ///< null: none that matters
  std::int64_t product_ = -1;
  bool seen_events_ = false;
};

}  // namespace busbar
