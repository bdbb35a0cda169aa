#include "driver/history/database.h"

#include "common/base/error.h"
#include "common/base/text.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

namespace busbar {
namespace {

/// What to do about it; empty where SQLite's words say all.
const char* remedy(int result) {
  constexpr const char* kDisk = "; the disk may be full, or its file system has no locks: name a file on a local disk";
  constexpr std::array<std::pair<int, const char*>, 9> kRemedies{{
      {SQLITE_NOTADB, " and stays as it is; name another file"},
      {SQLITE_CORRUPT, "; it is damaged and stays as it is: move it away, `sqlite3 FILE .recover` may save its rows"},
      {SQLITE_CANTOPEN, "; it must be a file that rank 0 may read and write, in a directory that exists"},
      {SQLITE_READONLY,
       "; rank 0 must be allowed to write the file and its directory (where SQLite keeps its journal)"},
      {SQLITE_FULL, "; the disk is full"},
      {SQLITE_BUSY, "; another process holds it: try again, or look who does (fuser)"},
      {SQLITE_IOERR, kDisk},
      {SQLITE_NOLFS, kDisk},
      {SQLITE_PROTOCOL, kDisk},
  }};
  const auto found = std::ranges::find(kRemedies, result & 0xFF, &std::pair<int, const char*>::first);
  return found == kRemedies.end() ? "" : found->second;
}

/// SQLite calls it while another process holds the file. Not sqlite3_busy_timeout: that begins anew with each attempt,
/// and preparing a statement alone makes three.
int wait_a_little(void* patience_s, int) {
  double& left_s = *static_cast<double*>(patience_s);
  if (left_s <= 0) return 0;
  const auto start = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  left_s -= std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return 1;
}

}  // namespace

void Database::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Database::Database(const std::string& path, Mode mode, double patience_s) : path_(path), patience_s_(patience_s) {
  const int flags = SQLITE_OPEN_READWRITE | (mode == Mode::create ? SQLITE_OPEN_CREATE : 0);
  sqlite3* database = nullptr;
  // SQLite takes some names for more than a file: "", ":memory:", "file:...".
  const bool absolute = path.starts_with('/');
  if (path.empty()) throw_bad_config("an empty name is not a file");
  std::error_code unknown;  // then SQLite has the reason
  if (mode == Mode::existing &&
      std::filesystem::status(path, unknown).type() == std::filesystem::file_type::not_found) {
    throw_bad_config(fmt::format("{}: there is no such file", printable(path)));
  }
  const int result = sqlite3_open_v2((absolute ? path : "./" + path).c_str(), &database, flags, nullptr);
  database_.reset(database);
  check(result);
  sqlite3_extended_result_codes(database, 1);
  sqlite3_busy_handler(database, &wait_a_little, &patience_s_);
  // The file may come from anybody: its views and triggers get no functions with side effects.
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
}

void Database::check(int result) const {
  if (result == SQLITE_OK || result == SQLITE_ROW || result == SQLITE_DONE) return;
  const char* words = database_ ? sqlite3_errmsg(database_.get()) : sqlite3_errstr(result);
  const int code = database_ ? sqlite3_extended_errcode(database_.get()) : result;
  throw_bad_config(fmt::format("{}: {}{}", printable(path_), words, remedy(code)));
}

void Database::run(const std::string& sql) {
  check(sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr));
}

std::int64_t Database::number(const std::string& sql) {
  Statement statement(*this, sql);
  std::int64_t value = 0;
  if (statement.step()) statement.read(value);
  return value;
}

std::int64_t Database::last_id() const { return sqlite3_last_insert_rowid(database_.get()); }

void Transaction::commit() {
  database_.run("COMMIT");
  open_ = false;
}

Transaction::~Transaction() {
  if (!open_) return;
  try {
    database_.run("ROLLBACK");
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    // SQLite has rolled back by itself, as it does when the disk is full.
  }
}

Statement::Statement(Database& database, std::string_view sql) : database_(database) {
  sqlite3_stmt* statement = nullptr;
  database.check(
      sqlite3_prepare_v2(database.database_.get(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr));
  statement_.reset(statement);
}

Statement& Statement::bind(std::string_view text) {
  const std::string valid = valid_utf8(text);
  database_.check(
      sqlite3_bind_text(statement_.get(), ++bound_, valid.data(), static_cast<int>(valid.size()), SQLITE_TRANSIENT));
  return *this;
}

Statement& Statement::bind_whole(std::int64_t value) {
  database_.check(sqlite3_bind_int64(statement_.get(), ++bound_, value));
  return *this;
}

Statement& Statement::bind(double value) {
  database_.check(sqlite3_bind_double(statement_.get(), ++bound_, value));  // NaN becomes NULL
  return *this;
}

Statement& Statement::bind_null() {
  database_.check(sqlite3_bind_null(statement_.get(), ++bound_));
  return *this;
}

bool Statement::step() {
  const int result = sqlite3_step(statement_.get());
  column_ = 0;
  if (result == SQLITE_ROW) return true;
  if (result != SQLITE_DONE) database_.check(result);
  sqlite3_reset(statement_.get());
  bound_ = 0;
  return false;
}

bool Statement::null() { return sqlite3_column_type(statement_.get(), column_) == SQLITE_NULL; }

std::string Statement::text() {
  const auto* bytes = sqlite3_column_text(statement_.get(), column_);
  const int size = sqlite3_column_bytes(statement_.get(), column_++);
  return bytes == nullptr ? "" : std::string(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

std::int64_t Statement::whole() { return sqlite3_column_int64(statement_.get(), column_++); }

double Statement::real() { return sqlite3_column_double(statement_.get(), column_++); }

}  // namespace busbar
