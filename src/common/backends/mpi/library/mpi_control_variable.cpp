#include "common/backends/mpi/mpi_backend.h"
#include "common/base/error.h"
#include "common/base/text.h"
#include "common/processes/mpi/library/mpi_group.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace busbar::mpi_library {
namespace {

struct Variable {
  int index = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_T_enum choices = MPI_T_ENUM_NULL;
  int bind = 0;
  int text_length = 0;  ///< of the description
};

/// `text`: room for the description, or null.
bool get_info(Variable& v, char* text) {
  int name_length = 0, verbosity = 0, scope = 0;
  return MPI_T_cvar_get_info(v.index, nullptr, &name_length, &verbosity, &v.type, &v.choices, text, &v.text_length,
                             &v.bind, &scope) == MPI_SUCCESS;
}

std::optional<Variable> find(const std::string& name) {
  Variable v;
  const bool found = MPI_T_cvar_get_index(name.c_str(), &v.index) == MPI_SUCCESS && get_info(v, nullptr);
  return found ? std::optional(v) : std::nullopt;
}

/// A variable in hand; none of those used here is bound to an MPI object.
class Handle {
 public:
  explicit Handle(const Variable& v) {
    valid_ =
        v.bind == MPI_T_BIND_NO_OBJECT && MPI_T_cvar_handle_alloc(v.index, nullptr, &handle_, &count_) == MPI_SUCCESS;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (valid_) MPI_T_cvar_handle_free(&handle_);
  }
  explicit operator bool() const { return valid_; }
  MPI_T_cvar_handle get() const { return handle_; }
  int count() const { return count_; }

 private:
  MPI_T_cvar_handle handle_{};
  int count_ = 0;
  bool valid_ = false;
};

/// Room for any one value; zeroed, because Open MPI fills only one byte of a switch declared as int.
using Value = std::array<char, 16>;

template <class T>
T as(const Value& value) {
  T result;
  std::memcpy(&result, value.data(), sizeof result);
  return result;
}

template <class T>
Value number(const std::string& name, std::string_view text) {
  const std::optional<T> parsed = number_of<T>(text);
  if (!parsed) throw_bad_config(fmt::format("{} takes a number, not {}", name, in_quotes(text)));
  Value value{};
  std::memcpy(value.data(), &*parsed, sizeof *parsed);
  return value;
}

Value parse(const std::string& name, MPI_Datatype type, const std::string& given) {
  const std::string text = given == "true" ? "1" : given == "false" ? "0" : given;
  if (type == MPI_C_BOOL && (text == "0" || text == "1")) return Value{static_cast<char>(text[0] - '0')};
  if (type == MPI_INT) return number<int>(name, text);
  if (type == MPI_UNSIGNED) return number<unsigned>(name, text);
  if (type == MPI_UNSIGNED_LONG) return number<unsigned long>(name, text);
  if (type == MPI_UNSIGNED_LONG_LONG) return number<unsigned long long>(name, text);
  throw_not_possible(fmt::format("{} is not a number, and busbar sets only numbers", name));
}

bool started() {
  int count = 0;
  return MPI_T_cvar_get_num(&count) == MPI_SUCCESS;
}

void start() {
  if (started()) return;
  // Open MPI 4.1 stores this level as MPI's own: MPI_Query_thread's answer must not change.
  int level = MPI_THREAD_SINGLE;
  int initialized = 0;
  if (MPI_Initialized(&initialized) == MPI_SUCCESS && initialized != 0) MPI_Query_thread(&level);
  int provided = 0;
  if (MPI_T_init_thread(level, &provided) != MPI_SUCCESS)
    throw_not_possible("this MPI library offers no tool interface (MPI_T)");
}

std::optional<std::string> read(const std::string& name) {
  const std::optional<Variable> v = find(name);
  if (!v) return std::nullopt;
  const Handle handle(*v);
  if (!handle) return std::nullopt;
  if (v->type == MPI_CHAR) {
    // Open MPI copies the whole string whatever the count says (it says 2048).
    std::string text(static_cast<std::size_t>(handle.count()) + (1 << 16), '\0');
    if (MPI_T_cvar_read(handle.get(), text.data()) != MPI_SUCCESS) return std::nullopt;
    return std::string(text.c_str());
  }
  Value value{};
  if (handle.count() != 1 || MPI_T_cvar_read(handle.get(), value.data()) != MPI_SUCCESS) return std::nullopt;
  if (v->type == MPI_INT) return std::to_string(as<int>(value));
  if (v->type == MPI_UNSIGNED) return std::to_string(as<unsigned>(value));
  if (v->type == MPI_UNSIGNED_LONG) return std::to_string(as<unsigned long>(value));
  if (v->type == MPI_UNSIGNED_LONG_LONG) return std::to_string(as<unsigned long long>(value));
  if (v->type == MPI_C_BOOL) return std::to_string(value[0] != 0 ? 1 : 0);
  if (v->type == MPI_DOUBLE) return fmt::format("{}", as<double>(value));
  return std::nullopt;
}

void write(const std::string& name, const std::string& value) {
  const std::optional<Variable> v = find(name);
  if (!v) throw_not_possible(fmt::format("this MPI library has no variable {}", in_quotes(name)));
  const Handle handle(*v);
  const Value raw = parse(name, v->type, value);
  if (handle && handle.count() == 1 && MPI_T_cvar_write(handle.get(), raw.data()) == MPI_SUCCESS) return;
  throw_not_possible(
      fmt::format("this MPI library does not let {} be set to {} at run time: set it at launch "
                  "(--mca {} {})",
                  name, in_quotes(value), name, printable(value)));
}

std::string description(const std::string& name) {
  std::optional<Variable> v = find(name);
  if (!v || v->text_length <= 0) return {};
  std::string text(static_cast<std::size_t>(v->text_length), '\0');
  return get_info(*v, text.data()) ? std::string(text.c_str()) : std::string();
}

std::vector<std::pair<int, std::string>> choices(const std::string& name) {
  const std::optional<Variable> v = find(name);
  if (!v || v->choices == MPI_T_ENUM_NULL) return {};
  int count = 0, length = 0;
  if (MPI_T_enum_get_info(v->choices, &count, nullptr, &length) != MPI_SUCCESS) return {};
  std::vector<std::pair<int, std::string>> result;
  for (int i = 0; i < count; ++i) {
    std::array<char, 256> text{};
    int value = 0, size = static_cast<int>(text.size());
    if (MPI_T_enum_get_item(v->choices, i, &value, text.data(), &size) == MPI_SUCCESS)
      result.emplace_back(value, text.data());
  }
  return result;
}

}  // namespace

const MpiTool kTool{start, started, read, write, description, choices};

}  // namespace busbar::mpi_library
