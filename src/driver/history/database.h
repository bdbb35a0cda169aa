#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

struct sqlite3;
struct sqlite3_stmt;

namespace busbar {

/// An SQLite file. Every failure throws Error(bad_config) with the file's name, SQLite's words and, where one is known,
/// what to do. For one thread of one process; other processes may use the file at the same time.
class Database {
 public:
  enum class Mode { create, existing };

  /// Opens the file; with Mode::existing it must be there. Waits up to `patience_s` in all while other processes hold
  /// it.
  Database(const std::string& path, Mode mode, double patience_s = 30);
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Statements without results, separated by ';'.
  void run(const std::string& sql);

  /// The first column of the first row, as a number; 0 for none.
  std::int64_t number(const std::string& sql);

  std::int64_t last_id() const;

  const std::string& path() const { return path_; }

  /// Throws what SQLite says of a result code other than success.
  void check(int result) const;

 private:
  friend class Statement;
  struct Close {
    void operator()(sqlite3* database) const;
  };
  std::string path_;
  double patience_s_;  ///< what is left of it; SQLite's handler knows its address
  std::unique_ptr<sqlite3, Close> database_;
};

/// Changes that become part of the file together or not at all. The file is taken at the start, so that two writers
/// wait for each other instead of failing at their ends. A reader gives "BEGIN" as `begin`, and sees one state.
class Transaction {
 public:
  explicit Transaction(Database& database, const char* begin = "BEGIN IMMEDIATE") : database_(database) {
    database_.run(begin);
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();

  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

/// One prepared statement: bind in order, then step; text that is no UTF-8 is mended.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);

  Statement& bind(std::string_view text);
  Statement& bind(const char* text) { return bind(std::string_view(text)); }  // else it would be true or false
  Statement& bind(double value);
  Statement& bind(std::integral auto value) { return bind_whole(static_cast<std::int64_t>(value)); }
  template <class Value>
  Statement& bind(const std::optional<Value>& value) {
    return value ? bind(*value) : bind_null();
  }

  /// The next row; false after the last. A statement that is over can be bound and stepped again.
  bool step();

  /// Binds all of these and steps.
  bool run(const auto&... values) {
    (bind(values), ...);
    return step();
  }

  /// The next columns of the row, in order.
  std::string text();
  template <class... Values>
  void read(Values&... values) {
    ((values = next<Values>()), ...);
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Statement& bind_whole(std::int64_t value);
  Statement& bind_null();
  bool null();
  std::int64_t whole();
  double real();

  template <class Value>
  Value next() {
    if constexpr (std::is_same_v<Value, std::string>) {
      return text();
    } else if constexpr (std::is_integral_v<Value>) {
      return static_cast<Value>(whole());
    } else if constexpr (std::is_same_v<Value, double>) {
      return real();
    } else {
      if (!null()) return next<typename Value::value_type>();
      ++column_;
      return std::nullopt;
    }
  }

  Database& database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0;
  int column_ = 0;
};

}  // namespace busbar
