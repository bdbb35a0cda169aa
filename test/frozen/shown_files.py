"""How a file that a command wrote is kept in an expectation: as text that a person can read in a diff."""

import json
import os
import re
import sqlite3
import tempfile

# Of a list's items or of what repeats, so many values are shown.
FEW = 3


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


def text(what, content):
    """`what`: "stdout", "stderr" or "file NAME"."""
    if content.startswith(b"SQLite format 3\0"):
        return _database(content)
    shown = content.decode("utf-8", "backslashreplace")
    if ".html" in what:
        return _page(shown)
    return _shape(shown) if shown.startswith("{") else shown


def _shape(document):
    """Every path in a JSON document, in the order of the document, with its first few values: a list is one path."""
    try:
        seen = {}
        _visit("", json.loads(document), seen)
    except ValueError:
        return document
    return "".join(f"{path}: {' '.join(values[:FEW])}{' ...' if values[FEW:] else ''}\n" for path, values in seen.items())


def _visit(path, value, seen):
    values = seen.setdefault(path or ".", []) if not (value and isinstance(value, (dict, list))) else []
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            _visit(f"{path}.{key}", inner, seen)
    elif isinstance(value, list) and value:
        for inner in value:
            _visit(path + "[]", inner, seen)
    elif (shown := json.dumps(value, ensure_ascii=False)) not in values:
        values.append(shown)


def _page(page):
    """A page's words and the shape of its data; its markup is tested elsewhere."""
    data = re.search(r"<script[^>]*json[^>]*>(.*?)</script>", page, flags=re.S)
    page = re.sub(r"<(style|script)[^>]*>.*?</\1>|</t[dh]>", "", page, flags=re.S)
    page = re.sub(r"<t[dh]\b[^>]*>", " | ", page)
    page = re.sub(r"(?<!\n)<(?:tr|section|details|figure|ul|div|main|header|h\d|p|li)\b", r"\n\g<0>", page)
    lines = re.sub(r"<[^>]*>", "", page).splitlines()
    return "".join(line + "\n" for line in lines if line.strip()) + (_shape(data[1]) if data else "")


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
