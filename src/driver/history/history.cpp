#include "driver/history/history.h"

#include "common/base/error.h"
#include "common/base/say.h"
#include "common/base/text.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

namespace busbar {
namespace {

/// What to do about it; empty if SQLite's words say all.
const char* advice(int result) {
  constexpr const char* kDisk = "; the disk may be full, or its file system has no locks: name a file on a local disk";
  constexpr std::array<std::pair<int, const char*>, 9> kRemedies{{
      {SQLITE_NOTADB, " and stays as it is; name another file"},
      {SQLITE_CORRUPT, "; it is damaged and stays as it is: move it away, `sqlite3 FILE .recover` may save its rows"},
      {SQLITE_CANTOPEN, "; it must be a file that rank 0 may read and write, in a directory that exists"},
      {SQLITE_READONLY,
       "; rank 0 must be allowed to write the file and its directory (where SQLite keeps its journal)"},
      {SQLITE_FULL, "; the disk is full"},
      {SQLITE_BUSY, "; another process holds it: try again, or find it with fuser"},
      {SQLITE_IOERR, kDisk},
      {SQLITE_NOLFS, kDisk},
      {SQLITE_PROTOCOL, kDisk},
  }};
  const auto found = std::ranges::find(kRemedies, result & 0xFF, &std::pair<int, const char*>::first);
  return found == kRemedies.end() ? "" : found->second;
}

/// SQLite calls it while another process holds the file. Not sqlite3_busy_timeout: that begins again with each attempt,
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

/// An SQLite file. Every failure throws Error(bad_config) with the file's name, SQLite's words and, if one is known,
/// what to do. For one thread of one process; other processes may use the file at the same time.
class Database {
 public:
  /// Opens the file; to read it must be there. Waits up to `patience_s` in all while other processes hold it.
  Database(const std::string& path, History::Mode mode, double patience_s) : path_(path), patience_s_(patience_s) {
    const int flags = SQLITE_OPEN_READWRITE | (mode == History::Mode::add ? SQLITE_OPEN_CREATE : 0);
    sqlite3* database = nullptr;
    // SQLite takes some names for more than a file: "", ":memory:", "file:...".
    const bool absolute = path.starts_with('/');
    if (path.empty()) throw_bad_config("an empty name is not a file");
    std::error_code unknown;  // then SQLite has the reason
    if (mode == History::Mode::read &&
        std::filesystem::status(path, unknown).type() == std::filesystem::file_type::not_found) {
      throw_bad_config(fmt::format("{}: there is no such file", printable(path)));
    }
    const int result = sqlite3_open_v2((absolute ? path : "./" + path).c_str(), &database, flags, nullptr);
    database_.reset(database);
    check(result);
    sqlite3_extended_result_codes(database, 1);
    sqlite3_busy_handler(database, &wait_a_little, &patience_s_);
    // The file may come from anybody. A view in place of a table, or a trigger, may never end.
    sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
    sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
    sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  }

  /// Statements without results, separated by ';'.
  void run(const std::string& sql) { check(sqlite3_exec(get(), sql.c_str(), nullptr, nullptr, nullptr)); }

  /// Throws what SQLite says of a result code other than success.
  void check(int result) const {
    if (result == SQLITE_OK || result == SQLITE_ROW || result == SQLITE_DONE) return;
    const char* words = database_ ? sqlite3_errmsg(get()) : sqlite3_errstr(result);
    const int code = database_ ? sqlite3_extended_errcode(get()) : result;
    throw_bad_config(fmt::format("{}: {}{}", printable(path_), words, advice(code)));
  }

  sqlite3* get() const { return database_.get(); }
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
  };
  std::string path_;
  double patience_s_;  ///< what is left of it; SQLite's handler knows its address
  std::unique_ptr<sqlite3, Close> database_;
};

namespace {

/// Changes that become part of the file together or not at all. The file is taken at the start, so that two writers
/// wait for each other instead of failing at their ends. A reader gives "BEGIN" as `begin`, and sees one state.
class Transaction {
 public:
  explicit Transaction(Database& database, const char* begin = "BEGIN IMMEDIATE") : database_(database) {
    database_.run(begin);
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction() {
    if (!open_) return;
    try {
      database_.run("ROLLBACK");
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
      // SQLite has rolled back by itself, as it does when the disk is full.
    }
  }

  void commit() {
    database_.run("COMMIT");
    open_ = false;
  }

 private:
  Database& database_;
  bool open_ = true;
};

/// One prepared statement: bind in order, then step.
class Statement {
 public:
  Statement(Database& database, std::string_view sql) : database_(database) {
    sqlite3_stmt* statement = nullptr;
    database.check(sqlite3_prepare_v2(database.get(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr));
    statement_.reset(statement);
  }

  /// A number, a string (what is no UTF-8 in it is replaced) or an optional one.
  template <class Value>
  void bind(const Value& value) {
    sqlite3_stmt* const it = statement_.get();
    if constexpr (std::is_integral_v<Value>) {
      database_.check(sqlite3_bind_int64(it, ++bound_, static_cast<std::int64_t>(value)));
    } else if constexpr (std::is_same_v<Value, double>) {
      database_.check(sqlite3_bind_double(it, ++bound_, value));  // NaN becomes NULL
    } else if constexpr (std::is_convertible_v<const Value&, std::string_view>) {
      const std::string valid = valid_utf8(value);
      const int size = static_cast<int>(valid.size());
      database_.check(sqlite3_bind_text(it, ++bound_, valid.data(), size, SQLITE_TRANSIENT));
    } else if (value) {
      bind(*value);
    } else {
      database_.check(sqlite3_bind_null(it, ++bound_));
    }
  }

  /// The next row; false after the last. A statement that is over can be bound and stepped again.
  bool step() {
    const int result = sqlite3_step(statement_.get());
    column_ = 0;
    if (result == SQLITE_ROW) return true;
    if (result != SQLITE_DONE) database_.check(result);
    sqlite3_reset(statement_.get());
    bound_ = 0;
    return false;
  }

  /// Binds all of these and steps.
  bool run(const auto&... values) {
    (bind(values), ...);
    return step();
  }

  /// The next columns of the row, in order.
  void read(auto&... values) { ((take(values), ++column_), ...); }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };

  template <class Value>
  void take(Value& value) {
    sqlite3_stmt* const row = statement_.get();
    if constexpr (std::is_same_v<Value, std::string>) {
      const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(row, column_));
      value.assign(bytes == nullptr ? "" : bytes, static_cast<std::size_t>(sqlite3_column_bytes(row, column_)));
    } else if constexpr (std::is_integral_v<Value>) {
      value = static_cast<Value>(sqlite3_column_int64(row, column_));
    } else if constexpr (std::is_same_v<Value, double>) {
      value = sqlite3_column_double(row, column_);
    } else if (sqlite3_column_type(row, column_) == SQLITE_NULL) {
      value.reset();
    } else {
      take(value.emplace());
    }
  }

  Database& database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0;
  int column_ = 0;
};

/// The first column of the first row, as a number; 0 for none.
std::int64_t first_number(Database& database, const std::string& sql) {
  Statement statement(database, sql);
  std::int64_t value = 0;
  if (statement.step()) statement.read(value);
  return value;
}

constexpr std::int64_t kApplication = 0x62757362;  // "busb", in the file's header
constexpr int kReserve = 256 * 1024;               // [bytes]: some thousand cells

// Times are seconds, bandwidths 1e9 B/s, lists are lines. Nothing here may be renamed without raising kHistoryVersion:
// people will write queries of their own.
constexpr const char* kSchema = R"(
CREATE TABLE runs(
  id INTEGER PRIMARY KEY AUTOINCREMENT, uuid TEXT NOT NULL, time TEXT NOT NULL, kind TEXT NOT NULL, title TEXT NOT NULL,
  command TEXT NOT NULL, version TEXT NOT NULL, backend TEXT NOT NULL, library TEXT NOT NULL, platform TEXT NOT NULL,
  estimand TEXT NOT NULL, hosts TEXT NOT NULL, nranks INTEGER NOT NULL, environment TEXT NOT NULL,
  outcome TEXT NOT NULL, exit_code INTEGER NOT NULL);
CREATE TABLE cells(
  run INTEGER NOT NULL REFERENCES runs(id), stage TEXT NOT NULL, cell TEXT NOT NULL, scope TEXT NOT NULL,
  collective TEXT NOT NULL, dtype TEXT NOT NULL, op TEXT NOT NULL, root INTEGER NOT NULL, nbytes INTEGER NOT NULL,
  in_place INTEGER NOT NULL, algorithm TEXT NOT NULL, median_s REAL NOT NULL, low_s REAL, high_s REAL, busbw REAL,
  wrong INTEGER, epochs_s TEXT NOT NULL);
CREATE INDEX cells_of_run ON cells(run, collective);
CREATE TABLE criteria(
  run INTEGER NOT NULL REFERENCES runs(id), stage TEXT NOT NULL, cell TEXT NOT NULL, scope TEXT NOT NULL,
  nbytes INTEGER NOT NULL, in_place INTEGER NOT NULL, criterion TEXT NOT NULL, outcome TEXT NOT NULL,
  found TEXT NOT NULL, wanted TEXT NOT NULL, source TEXT NOT NULL, reason TEXT NOT NULL, hosts TEXT NOT NULL);
CREATE INDEX criteria_of_run ON criteria(run);
CREATE TABLE room(bytes BLOB);
)";

std::string lines(const std::vector<std::string>& texts) {
  std::string joined;
  for (std::string text : texts) {
    std::ranges::replace(text, '\n', ' ');
    joined += (joined.empty() ? "" : "\n") + text;
  }
  return joined;
}

std::vector<std::string> split_lines(const std::string& text) {
  const std::vector<std::string_view> parts = split_text(text, '\n');
  return {parts.begin(), parts.end()};
}

// Seven digits: no clock has more, and a cell has hundreds of epochs.
std::string numbers(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += fmt::format("{}{:.7g}", text.empty() ? "" : " ", value);
  return text;
}

Outcome outcome_of(const std::string& text) { return from_word<Outcome>(text).value_or(Outcome::inconclusive); }

/// Of the run for which the statement is bound.
std::vector<Cell> next_cells(Statement& select) {
  std::vector<Cell> cells;
  while (select.step()) {
    Cell c;
    std::string stage;
    std::optional<double> low, high;
    select.read(stage, c.cell, c.scope, c.collective, c.dtype, c.op, c.root, c.nbytes, c.in_place, c.algorithm,
                c.median_s, low, high, c.busbw, c.wrong);
    c.stage = from_word<Stage>(stage);
    if (low && high && *low > 0 && *low <= *high && std::isfinite(*high)) c.interval_s = Interval{*low, *high};
    // A time that is none says nothing, and statistics refuse it.
    if (std::isnormal(c.median_s) && c.median_s > 0) cells.push_back(std::move(c));
  }
  return cells;
}

/// Whether it is still empty.
bool blank(Database& database) {
  return first_number(database, "SELECT count(*) FROM sqlite_master") == 0 &&
         first_number(database, "PRAGMA user_version") == 0 && first_number(database, "PRAGMA application_id") == 0;
}

}  // namespace

History::History(const std::string& path, Mode mode, double patience_s)
    : database_(std::make_unique<Database>(path, mode, patience_s)) {
  if (mode == Mode::add && blank(*database_)) {
    // Of runs that begin at once one makes a history of an empty file, while the others wait.
    Transaction taken(*database_);
    if (blank(*database_)) {
      database_->run(kSchema);
      database_->run(fmt::format("PRAGMA application_id={}; PRAGMA user_version={}", kApplication, kHistoryVersion));
      taken.commit();
    }
  }
  const std::int64_t version = first_number(*database_, "PRAGMA user_version");
  if (first_number(*database_, "PRAGMA application_id") != kApplication) {
    throw_bad_config(
        fmt::format("{}: is a database, but no history of busbar; it stays as it is: name "
                    "another file",
                    printable(database_->path())));
  }
  if (version != kHistoryVersion) {
    throw_bad_config(
        fmt::format("{}: is a history of version {}, and this busbar {} knows version {}: use a newer busbar, or "
                    "name another file",
                    printable(database_->path()), version, BUSBAR_VERSION, kHistoryVersion));
  }
  // Only now: of a file that is not ours not even the journal's mode may change. Hosts of a network file system do not
  // share the memory that a write-ahead log needs.
  if (mode == Mode::add) database_->run("PRAGMA journal_mode=DELETE");
}

History::~History() = default;

void History::check_room() {
  {
    Transaction write(*database_);
    database_->run(fmt::format("INSERT INTO room VALUES(randomblob({}))", kReserve));
    write.commit();
  }
  // The pages stay with the file, for the run's rows.
  Transaction remove(*database_);
  database_->run("DELETE FROM room");
  remove.commit();
}

std::int64_t History::add(const HistoryRun& run) {
  Transaction all(*database_);
  Statement insert(*database_, "INSERT INTO runs VALUES(NULL,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  insert.run(run.uuid, run.time, run.kind, run.title, run.command, run.version, run.backend, run.library, run.platform,
             run.estimand, lines(run.hosts), run.nranks, lines(run.environment), name(run.outcome), run.exit_code);
  const std::int64_t id = sqlite3_last_insert_rowid(database_->get());
  Statement cell(*database_, "INSERT INTO cells VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  for (const Cell& c : run.cells) {
    const auto bound = [&](double Interval::*end) {
      return c.interval_s ? std::optional(*c.interval_s.*end) : std::nullopt;
    };
    cell.run(id, c.stage ? name(*c.stage) : "", c.cell, c.scope, c.collective, c.dtype, c.op, c.root, c.nbytes,
             c.in_place, c.algorithm, c.median_s, bound(&Interval::low), bound(&Interval::high), c.busbw, c.wrong,
             numbers(c.epoch_medians_s));
  }
  Statement criterion(*database_, "INSERT INTO criteria VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)");
  for (const CriterionResult& c : run.criteria) {
    criterion.run(id, name(c.stage), c.cell, c.scope, c.nbytes, c.in_place, name(c.criterion), name(c.outcome), c.found,
                  c.wanted, c.source, c.reason, lines(c.hosts));
  }
  all.commit();
  return id;
}

std::vector<HistoryRun> History::runs() {
  Statement select(*database_,
                   "SELECT id,uuid,time,kind,title,command,version,backend,library,platform,estimand,hosts,nranks,"
                   "environment,outcome,exit_code FROM runs ORDER BY time, id");
  std::vector<HistoryRun> runs;
  while (select.step()) {
    HistoryRun& run = runs.emplace_back();
    std::string hosts, environment, outcome;
    select.read(run.id, run.uuid, run.time, run.kind, run.title, run.command, run.version, run.backend, run.library,
                run.platform, run.estimand, hosts, run.nranks, environment, outcome, run.exit_code);
    run.hosts = split_lines(hosts);
    run.environment = split_lines(environment);
    run.outcome = outcome_of(outcome);
  }
  return runs;
}

void History::read_cells(std::span<HistoryRun> runs, std::string_view collective,
                         const std::function<void(HistoryRun&)>& visit) {
  const std::string one = collective.empty() ? "" : " AND collective=?";
  const Transaction reading(*database_, "BEGIN");  // else each run asks for the file's locks
  Statement select(*database_,
                   "SELECT stage,cell,scope,collective,dtype,op,root,nbytes,in_place,algorithm,median_s,low_s,high_s,"
                   "busbw,wrong FROM cells WHERE run=?" +
                       one + " ORDER BY rowid");
  std::for_each(runs.rbegin(), runs.rend(), [&](HistoryRun& run) {
    select.bind(run.id);
    if (!collective.empty()) select.bind(collective);
    run.cells = next_cells(select);
    if (visit) visit(run);
  });
}

void History::read_criteria(HistoryRun& run) {
  Statement select(*database_,
                   "SELECT stage,cell,scope,nbytes,in_place,criterion,outcome,found,wanted,source,reason,hosts FROM "
                   "criteria WHERE run=? ORDER BY rowid");
  select.bind(run.id);
  run.criteria.clear();
  while (select.step()) {
    CriterionResult& c = run.criteria.emplace_back();
    std::string stage, criterion, outcome, hosts;
    select.read(stage, c.cell, c.scope, c.nbytes, c.in_place, criterion, outcome, c.found, c.wanted, c.source, c.reason,
                hosts);
    c.stage = from_word<Stage>(stage).value_or(Stage::whole);
    const auto known = from_word<Criterion>(criterion);
    if (!known) throw_bad_config(fmt::format("the history has {}, which is not a criterion", in_quotes(criterion)));
    c.criterion = *known;
    c.outcome = outcome_of(outcome);
    c.hosts = split_lines(hosts);
  }
}

void check_history(const std::string& path) {
  std::error_code unknown;
  const bool was_there = std::filesystem::exists(path, unknown);
  try {
    History(path, History::Mode::add).check_room();
  } catch (const Error& e) {
    if (!was_there && !path.empty()) std::filesystem::remove(path, unknown);
    throw Error(e.code(), fmt::format("--history {}", e.what()));
  }
}

// The file is not kept open in between: a run takes hours, and locks of a network file system do not last so long.
bool add_to_history(const std::string& path, const HistoryRun& run) {
  try {
    History(path, History::Mode::add).add(run);
    return true;
  } catch (const Error& e) {
    say("warning: --history {}; the run is not in the history, its result stands", e.what());
    return false;
  }
}

}  // namespace busbar
