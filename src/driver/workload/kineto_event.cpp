#include "driver/workload/kineto_event.h"

#include "common/base/text.h"
#include "driver/workload/trace_readers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

namespace busbar {
namespace {

constexpr std::size_t kMostInputs = 64;

/// As Kineto writes them; before 2022 as in the second half.
constexpr std::array<std::pair<std::string_view, KinetoCategory>, 11> kCategories{
    {{"cpu_op", KinetoCategory::op},
     {"user_annotation", KinetoCategory::annotation},
     {"gpu_user_annotation", KinetoCategory::gpu_annotation},
     {"kernel", KinetoCategory::kernel},
     {"gpu_memcpy", KinetoCategory::copy},
     {"gpu_memset", KinetoCategory::copy},
     {"Operator", KinetoCategory::op},
     {"Kernel", KinetoCategory::kernel},
     {"Memcpy", KinetoCategory::copy},
     {"Memset", KinetoCategory::copy},
     {"privateuse1_user_annotation", KinetoCategory::gpu_annotation}}};

KinetoCategory category_of(std::string_view word) {
  for (const auto& [known, category] : kCategories) {
    if (known == word) return category;
  }
  return KinetoCategory::other;
}

using Event = KinetoEvent;
using Shape = KinetoArg::Shape;

constexpr std::array kArgs{KinetoArg{"External id", &Event::external_id},
                           KinetoArg{"external id", &Event::external_id},
                           KinetoArg{"device", &Event::device},
                           KinetoArg{"In msg nelems", &Event::in_elements},
                           KinetoArg{"Out msg nelems", &Event::out_elements},
                           KinetoArg{"Group size", &Event::group_size},
                           KinetoArg{"Rank", &Event::rank},
                           KinetoArg{"Collective name", nullptr, &Event::collective},
                           KinetoArg{"dtype", nullptr, &Event::dtype},
                           KinetoArg{"Process Group Name", nullptr, &Event::group},
                           KinetoArg{"Process Group ID", nullptr, &Event::group},
                           KinetoArg{"Process Group Description", nullptr, &Event::description},
                           KinetoArg{"Process Group Ranks", nullptr, &Event::ranks, Shape::ranks},
                           KinetoArg{"In split size", nullptr, nullptr, Shape::splits},
                           KinetoArg{"Out split size", nullptr, nullptr, Shape::splits},
                           KinetoArg{"Input Dims", nullptr, nullptr, Shape::dims},
                           KinetoArg{"Input type", nullptr, nullptr, Shape::types}};

constexpr std::uint64_t kArgLengths = [] {
  std::uint64_t lengths = 0;
  for (const KinetoArg& arg : kArgs) lengths |= std::uint64_t{1} << arg.name.size();
  return lengths;
}();

}  // namespace

std::int64_t nanoseconds_of(const std::string& microseconds, double value) {
  constexpr double kMost = 4e15;  // [us] of 1970 to 2096; the difference of two fits too
  if (!(std::abs(value) < kMost)) return kNoTime;
  std::int64_t whole = 0;
  const char* const end = microseconds.data() + microseconds.size();
  const auto [point, error] = std::from_chars(microseconds.data(), end, whole);
  if (error != std::errc{} || microseconds.find_first_of("eE") != kNotFound || microseconds.starts_with('-')) {
    return std::llround(value * 1e3);
  }
  std::int64_t fraction = 0;
  const char* at = point != end ? point + 1 : end;
  for (int digit = 0; digit < 3; ++digit) fraction = 10 * fraction + (at != end ? *at++ - '0' : 0);
  return whole * 1000 + fraction + (at != end && *at >= '5' ? 1 : 0);
}

void KinetoEvent::clear() {
  category = KinetoCategory::unknown;
  complete = true;
  name.clear();
  tid = -1;
  begin_ns = time_ns = kNoTime;
  external_id = device = in_elements = out_elements = group_size = rank = -1;
  for (std::string* text : {&collective, &dtype, &group, &description, &ranks}) text->clear();
  unequal = false;
  elements.clear();
  types.clear();
  inputs = 0;
}

KinetoEvents::Field KinetoEvents::field_of(const std::string& name) {
  // By the letters in which the names differ: this is asked ten times per event.
  if (name.size() == 2) return name == "ts" ? Field::begin : name == "ph" ? Field::phase : Field::none;
  if (name.size() == 4)
    return name[0] == 'n' && name == "name" ? Field::name : name == "args" ? Field::args : Field::none;
  if (name.size() != 3 || name[0] == 'p') return Field::none;
  return name == "cat" ? Field::category : name == "dur" ? Field::time : name == "tid" ? Field::tid : Field::none;
}

bool KinetoEvents::args_matter() const {
  const std::string_view name = event_.name;
  switch (event_.category) {
    case KinetoCategory::other:
    case KinetoCategory::gpu_annotation:
    case KinetoCategory::copy:
      return false;
    case KinetoCategory::kernel:
    case KinetoCategory::unknown:
      return true;
    case KinetoCategory::op:
      return name.empty() || name == "record_param_comms" || name.starts_with("c10d::") ||
             name.starts_with("symm_mem::");
    case KinetoCategory::annotation:
      return name.empty() || name.starts_with("nccl:") || name.starts_with("gloo:");
  }
  return true;
}

void KinetoEvents::begin_object() {
  ++depth_;
  if (skipped_ != 0) return;
  if (depth_ == 1) return;
  if (depth_ == 2 && part_ == Part::info) return;
  if (depth_ == 3 && part_ == Part::events) return event_.clear();
  if (depth_ == 4 && part_ == Part::events && field_ == Field::args && args_matter()) return void(arg_ = nullptr);
  if (depth_ == 4 && part_ == Part::info && job_.groups.size() < (std::size_t{1} << 16))
    return void(job_.groups.emplace_back());
  skipped_ = depth_;
}

void KinetoEvents::begin_list() {
  ++depth_;
  if (skipped_ != 0) return;
  if (depth_ == 2 && part_ == Part::events) return void(seen_events_ = true);
  if (depth_ == 3 && part_ == Part::info && fact_ == "pg_config") return;
  if (depth_ == 5 && part_ == Part::info && fact_ == "ranks") return;
  if (depth_ == 5 && part_ == Part::events && arg_ != nullptr) return;
  if ((depth_ == 6 || depth_ == 7) && part_ == Part::events && arg_ != nullptr && arg_->shape == Shape::dims) {
    product_ = -1;
    if (depth_ == 7) return;
    ++event_.inputs;
    if (event_.elements.size() < kMostInputs) event_.elements.push_back(-1);
    return;
  }
  skipped_ = depth_;
}

void KinetoEvents::end_object() {
  if (skipped_ == depth_) skipped_ = 0;
  if (skipped_ == 0) {
    if (depth_ == 3 && part_ == Part::events) on_event_(event_);
    if (depth_ == 2) part_ = Part::none;
  }
  --depth_;
}

void KinetoEvents::end_list() {
  if (skipped_ == depth_) {
    skipped_ = 0;
  } else if (skipped_ == 0) {
    if (depth_ == 2) part_ = Part::none;
    if (depth_ >= 6) end_extents();
  }
  --depth_;
}

void KinetoEvents::key(std::string& name) {
  if (skipped_ != 0) return;
  if (depth_ == 1) {
    part_ = name == "traceEvents" ? Part::events : name == "distributedInfo" ? Part::info : Part::none;
    fact_ = name;
  } else if (part_ == Part::info) {
    fact_ = name;
  } else if (depth_ == 3) {
    field_ = field_of(name);
  } else if (depth_ == 4) {
    arg_ = nullptr;
    // Most are none of them, and are as long as none of them.
    if (name.size() >= 64 || (kArgLengths >> name.size() & 1U) == 0) return;
    const auto known = std::ranges::find(kArgs, std::string_view(name), &KinetoArg::name);
    if (known != kArgs.end()) arg_ = &*known;
  }
}

void KinetoEvents::string(std::string& value) {
  if (skipped_ != 0) return;
  if (part_ == Part::info) {
    add_fact(value);
  } else if (part_ == Part::events && depth_ == 3) {
    if (field_ == Field::phase) event_.complete = value.size() == 1 && value[0] == 'X';
    if (field_ == Field::category) event_.category = category_of(value);
    if (field_ == Field::name && event_.category != KinetoCategory::other)
      event_.name.assign(value);  // not moved: the parser would grow its buffer again
  } else if (part_ == Part::events && depth_ >= 4 && arg_ != nullptr) {
    constexpr std::size_t kLongest = std::size_t{1} << 20;
    if (value.size() > kLongest) return;
    add_text(value);
    if (arg_->shape == Shape::splits) event_.unequal = event_.unequal || value.find_first_of("0123456789") != kNotFound;
    if (arg_->shape == Shape::types && event_.types.size() < kMostInputs) event_.types.push_back(value);
  }
}

void KinetoEvents::whole(std::int64_t value) {
  if (skipped_ != 0) return;
  if (part_ == Part::info) {
    add_fact(std::to_string(value));
  } else if (part_ == Part::events && depth_ == 3) {
    constexpr std::int64_t kMost = 4'000'000'000'000'000;  // [us]
    const std::int64_t time_ns = value < kMost && value > -kMost ? value * 1000 : kNoTime;
    if (field_ == Field::tid) event_.tid = value;
    if (field_ == Field::begin) event_.begin_ns = time_ns;
    if (field_ == Field::time) event_.time_ns = time_ns;
  } else if (part_ == Part::events && depth_ >= 4 && arg_ != nullptr) {
    if (arg_->number != nullptr) event_.*arg_->number = value;
    if (arg_->text != nullptr) add_text(std::to_string(value));
    if (arg_->shape == Shape::splits) event_.unequal = true;
    if (arg_->shape == Shape::dims) add_extent(value);
  }
}

void KinetoEvents::number(double value, const std::string& text) {
  if (skipped_ != 0 || part_ != Part::events || depth_ != 3) return;
  if (field_ == Field::begin) event_.begin_ns = nanoseconds_of(text, value);
  if (field_ == Field::time) event_.time_ns = nanoseconds_of(text, value);
}

void KinetoEvents::add_text(std::string_view text) {
  if (arg_->text != nullptr) (event_.*arg_->text).append(text).append(arg_->shape == Shape::ranks ? "," : "");
}

void KinetoEvents::add_fact(std::string_view text) {
  if (depth_ == 2) job_.facts[fact_] = text;
  if (depth_ < 4 || job_.groups.empty()) return;
  std::string& fact = job_.groups.back()[fact_];
  if (fact_ != "ranks") fact.clear();
  fact.append(text).append(",", fact_ == "ranks" ? 1 : 0);
}

void KinetoEvents::add_extent(std::int64_t value) {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  if (depth_ < 6) return;
  if (product_ < 0) product_ = 1;
  product_ = value < 0 ? 0 : value > 0 && product_ > kMost / value ? kMost : product_ * value;
}

void KinetoEvents::end_extents() {
  if (product_ >= 0 && !event_.elements.empty()) {
    std::int64_t& all = event_.elements.back();
    all = std::min((all < 0 ? 0 : all) + product_, std::int64_t{1} << 60);
  }
  product_ = -1;
}

}  // namespace busbar
