"""The cases of frozen_test.py: which commands over which inputs. A case is one subject, named by its command first; its
steps run one after the other in a folder of its own, by `sh`, with the programs on the path. In that folder `in` is
`recorded`, `doctors` the recorded machines, and what `prepare` writes."""

import dataclasses
import os
import sqlite3
from typing import Callable

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDED = os.path.join(HERE, "recorded")


@dataclasses.dataclass
class Case:
    name: str
    steps: list
    files: dict = dataclasses.field(default_factory=dict)  # name -> text or bytes, there before the first command
    links: dict = dataclasses.field(default_factory=dict)  # name -> path, from the project's root where not absolute
    prepare: Callable = lambda folder: None  # writes what is too large for `files`
    env: dict = dataclasses.field(default_factory=dict)
    needs: tuple = ("busbar",)  # programs without which the case is skipped
    replaced: tuple = ()  # (pattern, what stands for it)


def history_database(scratch):
    """The recorded history as a database; the same for all cases, which read it."""
    path = os.path.join(scratch, "history.db")
    if not os.path.exists(path):
        with open(os.path.join(RECORDED, "history.sql"), encoding="utf-8") as file:
            database = sqlite3.connect(path)
            database.executescript(file.read())
            database.close()
    with open(path, "rb") as file:
        return file.read()


def all_cases(scratch):
    # Here and not above: they take `Case` from this module.
    import cases_of_commands
    import cases_of_logs
    import cases_of_results

    cases = []
    for module in (cases_of_commands, cases_of_results, cases_of_logs):
        cases += module.cases(scratch)
    names = [case.name for case in cases]
    assert len(names) == len(set(names)), "two cases share a name"
    return cases
