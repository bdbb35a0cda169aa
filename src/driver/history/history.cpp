#include "driver/history/history.h"

#include "common/base/error.h"
#include "common/base/say.h"
#include "common/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace busbar {
namespace {

constexpr std::int64_t kApplication = 0x62757362;  // "busb", in the file's header
constexpr int kRoom = 256 * 1024;                  // [bytes]: some thousand cells

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

Criterion criterion_of(const std::string& text) {
  const auto criterion = from_word<Criterion>(text);
  if (!criterion) throw_bad_config(fmt::format("a history tells of {}, which is not a criterion", in_quotes(text)));
  return *criterion;
}

void add_cells(Database& database, std::int64_t id, const std::vector<Cell>& cells) {
  Statement insert(database, "INSERT INTO cells VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  for (const Cell& c : cells) {
    const auto bound = [&](double Interval::*end) {
      return c.interval_s ? std::optional(*c.interval_s.*end) : std::nullopt;
    };
    insert.run(id, c.stage ? name(*c.stage) : "", c.cell, c.scope, c.collective, c.dtype, c.op, c.root, c.nbytes,
               c.in_place, c.algorithm, c.median_s, bound(&Interval::low), bound(&Interval::high), c.busbw, c.wrong,
               numbers(c.epoch_medians_s));
  }
}

void add_criteria(Database& database, std::int64_t id, const std::vector<CriterionResult>& criteria) {
  Statement insert(database, "INSERT INTO criteria VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)");
  for (const CriterionResult& c : criteria) {
    insert.run(id, name(c.stage), c.cell, c.scope, c.nbytes, c.in_place, name(c.criterion), name(c.outcome), c.found,
               c.wanted, c.source, c.reason, lines(c.hosts));
  }
}

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
    // Nothing can be said of a time that is none, and statistics refuse it.
    if (std::isnormal(c.median_s) && c.median_s > 0) cells.push_back(std::move(c));
  }
  return cells;
}

/// Whether nobody has put anything into it yet.
bool blank(Database& database) {
  return database.number("SELECT count(*) FROM sqlite_master") == 0 && database.number("PRAGMA user_version") == 0 &&
         database.number("PRAGMA application_id") == 0;
}

/// Makes a history of a blank file. Of runs that begin at once one does it, while the others wait.
void create(Database& database) {
  Transaction taken(database);
  if (!blank(database)) return;
  database.run(kSchema);
  database.run(fmt::format("PRAGMA application_id={}; PRAGMA user_version={}", kApplication, kHistoryVersion));
  taken.commit();
}

}  // namespace

History::History(const std::string& path, Mode mode, double patience_s)
    : database_(path, mode == Mode::add ? Database::Mode::create : Database::Mode::existing, patience_s) {
  if (mode == Mode::add && blank(database_)) create(database_);
  const std::int64_t version = database_.number("PRAGMA user_version");
  if (database_.number("PRAGMA application_id") != kApplication) {
    throw_bad_config(
        fmt::format("{}: is a database, but no history of busbar; it stays as it is: name "
                    "another file",
                    printable(database_.path())));
  }
  if (version != kHistoryVersion) {
    throw_bad_config(
        fmt::format("{}: is a history of version {}, and this busbar {} knows version {}: use a newer busbar, or "
                    "name another file",
                    printable(database_.path()), version, BUSBAR_VERSION, kHistoryVersion));
  }
  // Only now: of a file that is not ours not even the journal's mode may change. Hosts of a network file system do not
  // share the memory that a write-ahead log needs.
  if (mode == Mode::add) database_.run("PRAGMA journal_mode=DELETE");
}

void History::check_room() {
  {
    Transaction write(database_);
    database_.run(fmt::format("INSERT INTO room VALUES(randomblob({}))", kRoom));
    write.commit();
  }
  // The pages stay with the file, for the run's rows.
  Transaction remove(database_);
  database_.run("DELETE FROM room");
  remove.commit();
}

std::int64_t History::add(const HistoryRun& run) {
  Transaction all(database_);
  Statement insert(
      database_,
      "INSERT INTO runs(uuid,time,kind,title,command,version,backend,library,platform,estimand,hosts,nranks,"
      "environment,outcome,exit_code) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  insert.run(run.uuid, run.time, run.kind, run.title, run.command, run.version, run.backend, run.library, run.platform,
             run.estimand, lines(run.hosts), run.nranks, lines(run.environment), name(run.outcome), run.exit_code);
  const std::int64_t id = database_.last_id();
  add_cells(database_, id, run.cells);
  add_criteria(database_, id, run.criteria);
  all.commit();
  return id;
}

std::vector<HistoryRun> History::runs() {
  Statement select(database_,
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
  const Transaction reading(database_, "BEGIN");  // else each run asks for the file's locks
  Statement select(database_,
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
  Statement select(database_,
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
    c.criterion = criterion_of(criterion);
    c.outcome = outcome_of(outcome);
    c.hosts = split_lines(hosts);
  }
}

void check_history(const std::string& path) {
  try {
    History(path, History::Mode::add).check_room();
  } catch (const Error& e) {
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
