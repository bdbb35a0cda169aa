
#include "common/base/text.h"
#include "common/record/json_values.h"
#include "driver/rules/line_rules.h"
#include "driver/workload/trace_rank.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <istream>
#include <streambuf>
#include <string_view>
#include <utility>

namespace busbar {
namespace {

constexpr std::size_t kMostInputs = 64;
constexpr std::int64_t kMostElements = std::int64_t{1} << 60;

/// As Kineto writes them; from "Operator" to "Memset" before 2022. MTIA is Meta's own accelerator.
constexpr std::array<std::pair<std::string_view, KinetoCategory>, 10> kCategories{
    {{"cpu_op", KinetoCategory::op},
     {"user_annotation", KinetoCategory::annotation},
     {"kernel", KinetoCategory::kernel},
     {"gpu_memcpy", KinetoCategory::copy},
     {"gpu_memset", KinetoCategory::copy},
     {"Operator", KinetoCategory::op},
     {"Kernel", KinetoCategory::kernel},
     {"Memcpy", KinetoCategory::copy},
     {"Memset", KinetoCategory::copy},
     {"mtia_ccp_events", KinetoCategory::kernel}}};

KinetoCategory category_of(std::string_view word) {
  const auto known = std::ranges::find(kCategories, word, [](const auto& one) { return one.first; });
  return known == kCategories.end() ? KinetoCategory::other : known->second;
}

/// A member of an event or of its args, and where it goes.
struct Field {
  enum class Shape : std::uint8_t { plain, time, phase, category, args, splits, dims, types };
  std::string_view name;
  Shape shape = Shape::plain;
  std::int64_t KinetoEvent::*number = nullptr;
  std::string KinetoEvent::*text = nullptr;
};
using Event = KinetoEvent;
using Shape = Field::Shape;

constexpr std::array kFields{Field{"ph", Shape::phase},
                             Field{"cat", Shape::category},
                             Field{"name", Shape::plain, nullptr, &Event::name},
                             Field{"tid", Shape::plain, &Event::tid},
                             Field{"ts", Shape::time, &Event::begin_ns},
                             Field{"dur", Shape::time, &Event::time_ns},
                             Field{"args", Shape::args}};

constexpr std::array kArgs{Field{"External id", Shape::plain, &Event::external_id},
                           Field{"external id", Shape::plain, &Event::external_id},
                           Field{"device", Shape::plain, &Event::device},
                           Field{"In msg nelems", Shape::plain, &Event::in_elements},
                           Field{"Out msg nelems", Shape::plain, &Event::out_elements},
                           Field{"Group size", Shape::plain, &Event::group_size},
                           Field{"Rank", Shape::plain, &Event::rank},
                           Field{"Collective name", Shape::plain, nullptr, &Event::collective},
                           Field{"dtype", Shape::plain, nullptr, &Event::dtype},
                           Field{"Process Group Name", Shape::plain, nullptr, &Event::group},
                           Field{"Process Group ID", Shape::plain, nullptr, &Event::group},
                           Field{"Process Group Description", Shape::plain, nullptr, &Event::description},
                           Field{"Process Group Ranks", Shape::plain, nullptr, &Event::ranks},
                           Field{"In split size", Shape::splits},
                           Field{"Out split size", Shape::splits},
                           Field{"Input Dims", Shape::dims},
                           Field{"Input type", Shape::types}};

/// The blocks of a trace as the stream that the JSON library reads.
class Blocks : public std::streambuf {
 public:
  explicit Blocks(const NextBytes& next) : next_(next) {}

  std::uint64_t nbytes() const { return nbytes_; }
  bool too_long() const { return nbytes_ - last_quote_ > kMostJsonText; }

 private:
  int_type underflow() override {
    if (too_long()) return traits_type::eof();
    const std::string_view block = next_();
    nbytes_ += block.size();
    // Within a string each quote follows a backslash. So blocks without any other quote are of one long string.
    for (std::size_t at = block.find('"', 1); at != kNotFound && last_quote_ != nbytes_; at = block.find('"', at + 1)) {
      if (block[at - 1] != '\\') last_quote_ = nbytes_;
    }
    char* const begin = const_cast<char*>(block.data());  // which nobody writes to
    setg(begin, begin, begin + block.size());
    return block.empty() ? traits_type::eof() : traits_type::to_int_type(*begin);
  }

  const NextBytes& next_;
  std::uint64_t nbytes_ = 0;
  std::uint64_t last_quote_ = 0;  ///< of nbytes_, as of the end of its block
};

/// The library's events: a trace is too large to hold. Memory does not grow with it: a string of more than
/// kMostJsonText bytes ends the reading.
class KinetoEvents final : public nlohmann::json_sax<Json> {
 public:
  explicit KinetoEvents(const std::function<void(KinetoEvent&)>& on_event) : on_event_(on_event) {}

  KinetoTrace read(const NextBytes& next) {
    Blocks blocks(next);
    std::istream stream(&blocks);
    Json::sax_parse(stream, this);
    if (blocks.too_long()) trace_.trouble = "has too long a text";
    if (trace_.trouble.empty()) trace_.nbytes = blocks.nbytes();
    return std::move(trace_);
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool binary(binary_t&) override { return false; }  // not in JSON

  bool start_object(std::size_t) override {
    ++depth_;
    if (skipped_ != 0 || depth_ == 1) return true;
    if (depth_ == 3 && part_ == Part::events) {
      event_ = {};
    } else if (depth_ == 4 && part_ == Part::events && field_ != nullptr && field_->shape == Shape::args &&
               args_matter()) {
      field_ = nullptr;
    } else if (depth_ == 4 && part_ == Part::info) {
      trace_.groups.emplace_back();
    } else if (depth_ != 2 || part_ != Part::info) {
      skipped_ = depth_;
    }
    return true;
  }

  bool start_array(std::size_t) override {
    ++depth_;
    if (skipped_ != 0) return true;
    const bool in_arg = part_ == Part::events && depth_ >= 5 && field_ != nullptr;
    product_ = -1;
    if (depth_ == 2 && part_ == Part::events) {
      trace_.has_events = true;
    } else if (depth_ == 6 && in_arg && field_->shape == Shape::dims) {
      if (event_.elements.size() < kMostInputs) event_.elements.push_back(-1);
    } else if (!(depth_ == 5 && in_arg) && !(depth_ == 7 && in_arg && field_->shape == Shape::dims) &&
               !(part_ == Part::info && (depth_ == 3 || depth_ == 5) &&
                 fact_ == (depth_ == 3 ? "pg_config" : "ranks"))) {
      skipped_ = depth_;
    }
    return true;
  }

  bool end_object() override {
    if (skipped_ == depth_) skipped_ = 0;
    if (skipped_ == 0 && depth_ == 3 && part_ == Part::events) on_event_(event_);
    if (skipped_ == 0 && depth_ == 2) part_ = Part::none;
    --depth_;
    return true;
  }

  bool end_array() override {
    if (skipped_ == 0 && depth_ == 2) part_ = Part::none;
    if (skipped_ == 0 && depth_ >= 6) end_extents();
    if (skipped_ == depth_) skipped_ = 0;
    --depth_;
    return true;
  }

  bool key(std::string& name) override {
    if (skipped_ != 0) return true;
    if (depth_ == 1) part_ = name == "traceEvents" ? Part::events : name == "distributedInfo" ? Part::info : Part::none;
    if (part_ != Part::events) {
      fact_ = name;
    } else if (depth_ == 3) {
      field_ = field_of(kFields, name);
    } else if (depth_ == 4) {
      field_ = field_of(kArgs, name);
    }
    return true;
  }

  bool string(std::string& value) override {
    if (skipped_ != 0) return true;
    if (part_ == Part::info) add_fact(value);
    constexpr std::size_t kLongest = std::size_t{1} << 20;
    if (part_ != Part::events || field_ == nullptr || event_.category == KinetoCategory::other ||
        value.size() > kLongest)
      return true;
    add_text(value);
    if (field_->shape == Shape::phase) event_.complete = value == "X";
    if (field_->shape == Shape::category) event_.category = category_of(value);
    if (field_->shape == Shape::splits) event_.unequal |= value.find_first_of("0123456789") != kNotFound;
    if (field_->shape == Shape::types && event_.types.size() < kMostInputs) event_.types.push_back(value);
    return true;
  }

  bool number_integer(std::int64_t value) override {
    if (skipped_ != 0) return true;
    if (part_ == Part::info) add_fact(std::to_string(value));
    if (part_ != Part::events || field_ == nullptr) return true;
    if (field_->shape == Shape::time) return number_float(static_cast<double>(value), std::to_string(value));
    if (field_->number != nullptr) event_.*field_->number = value;
    if (field_->text != nullptr) add_text(std::to_string(value));
    if (field_->shape == Shape::splits) event_.unequal = true;
    if (field_->shape == Shape::dims && depth_ >= 6) {
      if (product_ < 0) product_ = 1;
      product_ = value < 0 ? 0 : value > 0 && product_ > kMostElements / value ? kMostElements : product_ * value;
    }
    return true;
  }

  bool number_unsigned(std::uint64_t value) override {
    const auto whole = static_cast<std::int64_t>(value);
    return whole >= 0 ? number_integer(whole) : number_float(static_cast<double>(value), std::to_string(value));
  }

  bool number_float(double value, const std::string& text) override {
    if (skipped_ == 0 && part_ == Part::events && field_ != nullptr && field_->shape == Shape::time)
      event_.*field_->number = nanoseconds_of(text, value);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const Json::exception& error) override {
    const std::string_view what = error.what();
    const bool cut = mentions(what, "unexpected end of input") || mentions(what, "missing closing quote");
    trace_.trouble = cut ? "ends too early" : "is not JSON: " + printable(what.substr(what.find("] ") + 2, 200));
    trace_.nbytes = position;
    return false;
  }

 private:
  enum class Part : std::uint8_t { none, events, info };

  /// Null: none that matters.
  static const Field* field_of(const auto& fields, std::string_view name) {
    const auto found = std::ranges::find(fields, name, &Field::name);
    return found == fields.end() ? nullptr : &*found;
  }

  bool args_matter() const {
    const std::string_view name = event_.name;
    if (event_.category == KinetoCategory::op)
      return name.empty() || name == "record_param_comms" || name.starts_with("c10d::") ||
             name.starts_with("symm_mem::");
    if (event_.category == KinetoCategory::annotation) return name.empty() || !annotated_call(name).empty();
    return event_.category == KinetoCategory::kernel || event_.category == KinetoCategory::unknown;
  }

  /// Also an item of a list.
  void add_text(std::string_view text) {
    if (field_->text != nullptr) (event_.*field_->text).append(text).append(depth_ > 4 ? "," : "");
  }

  void add_fact(std::string_view text) {
    if (depth_ == 2) trace_.job[fact_] = text;
    if (depth_ < 4 || trace_.groups.empty()) return;
    std::string& fact = trace_.groups.back()[fact_];
    if (depth_ == 4) fact.clear();
    fact.append(text).append(depth_ > 4 ? "," : "");
  }

  /// Of a tensor, or of one of a list of tensors.
  void end_extents() {
    if (product_ >= 0 && !event_.elements.empty()) {
      std::int64_t& all = event_.elements.back();
      all = std::min(std::max<std::int64_t>(all, 0) + product_, kMostElements);
    }
    product_ = -1;
  }

  const std::function<void(KinetoEvent&)>& on_event_;
  KinetoEvent event_;
  KinetoTrace trace_;
  std::string fact_;  ///< the key of what a trace says of its job
  int depth_ = 0;
  int skipped_ = 0;  ///< the depth of what is passed over; 0: nothing
  Part part_ = Part::none;
  const Field* field_ = nullptr;
  std::int64_t product_ = -1;  ///< of the extents of a tensor
};

}  // namespace

KinetoTrace read_kineto_events(const NextBytes& next, const std::function<void(KinetoEvent&)>& on_event) {
  return KinetoEvents(on_event).read(next);
}

std::int64_t nanoseconds_of(const std::string& microseconds, double value) {
  constexpr double kMost = 4e15;  // [us] of 1970 to 2096; the difference of two fits too
  if (!(std::abs(value) < kMost)) return kNoTime;
  std::int64_t whole = 0;
  const char* const end = microseconds.data() + microseconds.size();
  const auto [point, error] = std::from_chars(microseconds.data(), end, whole);
  if (error != std::errc{} || microseconds.find_first_of("eE") != kNotFound || microseconds.starts_with('-'))
    return std::llround(value * 1e3);
  double fraction = 0;
  std::from_chars(point, end, fraction);  // ".125", if there is any
  return whole * 1000 + std::llround(fraction * 1e3);
}

}  // namespace busbar
