"""How a file that a command wrote is kept in an expectation: as text that a person can read in a diff."""

import json
import os
import re
import sqlite3
import tempfile

# What does not follow from the machine or the moment, by the last part of its path; of all else the type is kept.
STABLE = frozenset("""kind schema schema_version suite program backend nranks nprocs collective placement dtype op redop type
    nbytes size size_bytes count root rank ranks nwrong wrong wrong_left_out exit_code cause suspect_rank buffer stage cell
    scope criterion verdict occasion step cadence estimand variant not_possible settings algorithm protocol setting name
    messages bytes consistent timed_verified measured okay cycle requested_bytes actual_iterations skipped_iterations
    validation graph nthreads ngpus iterations warmup_iters minimum_bytes maximum_bytes rows_planned title plan notes
    experiment_type got want first last""".split())


def contents(folder):
    """Name -> bytes of the regular files below, links not followed."""
    found = {}
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, folder)] = file.read()
    return found


def text(what, content, measured):
    """`what`: "stdout", "stderr" or "file NAME"."""
    if content.startswith(b"SQLite format 3\0"):
        return _database(content)
    shown = content.decode("utf-8", "backslashreplace")
    if ".html" in what:
        return _page(shown)
    if measured and shown.lstrip().startswith("{"):
        try:
            return shape(json.loads(shown))
        except ValueError:
            pass
    return shown


def shape(document):
    """Every path in a JSON document, in the order of the document, with its type, and its values where they do not
    follow from the moment. Lists are one path with "[]"."""
    seen = {}
    _visit("", document, seen)
    return "".join(f"{path}: {' '.join(sorted(values))}\n" for path, values in seen.items())


def _visit(path, value, seen):
    values = seen.setdefault(path or ".", set())
    if isinstance(value, dict):
        values.add("{}" if not value else "{...}")
        for key, inner in value.items():
            _visit(f"{path}.{key}", inner, seen)
    elif isinstance(value, list):
        values.add("[]" if not value else "[...]")
        for inner in value:
            _visit(path + "[]", inner, seen)
    else:
        values.add(_leaf(path.split(".")[-1].rstrip("[]"), value))


def _leaf(name, value):
    if name in STABLE and not isinstance(value, float):
        return json.dumps(value, ensure_ascii=False)
    # Whether there is a number depends on how much could be measured.
    return "flag" if isinstance(value, bool) else "text" if isinstance(value, str) else "number or null"


def _page(page):
    """A page's words, tables and data; not its style and script, which are files of the source and Chart.js."""
    page = re.sub(r"(<style[^>]*>).*?</style>", r"\1...</style>", page, flags=re.S)
    page = re.sub(r"(<script(?![^>]*json)[^>]*>).*?</script>", r"\1...</script>", page, flags=re.S)
    # Shorter, and nothing is lost.
    page = re.sub(r"</(?:td|th|li|p|tr)>", "", re.sub(r' class="(number|short)"', r".\1", page))
    page = re.sub(r"'sha256-[^']*'", "'sha256-...'", page)
    return re.sub(r"(?<!\n)(<(?:/?(?:tr|table|section|details|figure|ul|div|main|header)|h\d|p|li|script)\b)", r"\n\1",
                  page)


def _database(content):
    """The tables as SQL, and how many rows each has."""
    with tempfile.NamedTemporaryFile(suffix=".db") as file:
        file.write(content)
        file.flush()
        database = sqlite3.connect(file.name)
        lines = [f"{name} = {database.execute('PRAGMA ' + name).fetchone()[0]}"
                 for name in ("application_id", "user_version", "journal_mode", "integrity_check")]
        for name, sql in database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"):
            lines.append(sql)
            if sql.upper().startswith("CREATE TABLE"):
                lines.append(f"-- {database.execute(f'SELECT count(*) FROM {name}').fetchone()[0]} rows")
        database.close()
    return "\n".join(lines) + "\n"
