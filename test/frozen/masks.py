"""Takes out of a program's output what differs from run to run or machine to machine, and nothing else.

`always` is for every command; `measured` for those that run ranks: times, counts of samples, hosts and processes are
replaced there, the words, names, keys and units between them stay.
"""

import datetime
import os
import re
import socket
import time

STAMP = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)([ T]|\n +)(\d\d):(\d\d):(\d\d)\b")
NUMBER = r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?"
# Strings, brackets and commas are all that folding must tell apart.
JSON_LINE = re.compile(r'^("[\w.]+": ?)?[\[{"]')
STARTED_S = time.time()
SLACK_S = 60
LONG_LINE = 160
LONG_VALUE = 110


class Masks:
    """`folders`: path -> the name to show instead; `version`: busbar's own."""

    def __init__(self, folders, version):
        self.folders = sorted(folders.items(), key=lambda item: -len(item[0]))
        self.version = version
        self.hosts = {socket.gethostname(), socket.gethostname().split(".")[0]}

    def always(self, text):
        for path, name in self.folders:
            text = text.replace(path, name)
        text = re.sub(r"(busbar (?:version )?)" + re.escape(self.version) + r"(?![\w.])", r"\1<version>", text)
        text = re.sub(r'("version": ?")' + re.escape(self.version) + '"', r'\1<version>"', text)
        text = re.sub(r"Open MPI \d+\.\d+(\.\d+)?\w*", "Open MPI <v>", text)
        text = re.sub(r"(busbar-)" + re.escape(self.version), r"\1<version>", text)
        text = re.sub(r"(busbar diagnose on )[\w.-]+", r"\1<host>", text)
        text = re.sub(r'("launch_uuid": ?)"[0-9a-f-]+"', r'\1"<uuid>"', text)
        text = STAMP.sub(_if_now, text)
        return re.sub(r"\b\d{10}(\.\d+)?\b", _if_epoch_now, text)

    def measured(self, text, only_ours):
        """For the output of ranks, after `always`. `only_ours`: of stderr, to which the launcher writes too."""
        if only_ours:
            text = "".join(line for line in text.splitlines(keepends=True) if re.match("busbar|#", line))
        for host in self.hosts:
            text = re.sub(r"(?<![\w.-])" + re.escape(host) + r"(?![\w.-])", "<host>", text)
        text = re.sub(r'"env": ?\[[^\]]*\]', '"env": [<env>]', text)
        return "\n".join(_measured_line(line) for line in text.split("\n"))


def _is_of_this_test(seconds):
    """Times in recorded files stay, however young the files: the clock must not decide what a case says."""
    return STARTED_S - SLACK_S < seconds < time.time() + SLACK_S


def _if_now(match):
    # The programs run with TZ=UTC.
    told = datetime.datetime(*(int(match.group(i)) for i in (1, 2, 3, 5, 6, 7)), tzinfo=datetime.timezone.utc)
    return "<now>" if _is_of_this_test(told.timestamp()) else match.group(0)


def _if_epoch_now(match):
    return "<now_s>" if _is_of_this_test(float(match.group(0))) else match.group(0)


def _measured_line(line):
    if re.match(r"^ +\d", line):
        return _row(line)
    line = re.sub(r"\bPid +\d+", "Pid <pid>", line)
    line = re.sub(r"\bpid \d+|(?<=-p )\d+|(?<=kill -CONT )\d+", "<pid>", line)
    line = re.sub(r"last finished #\d+", "last finished #<n>", line)
    line = re.sub(r"\[core \d+[^\]]*\]|\[unbound\]|\[cores? [^\]]*\]", "[<cores>]", line)
    return re.sub(r"(?<![\w.<#])[-+]?\d+\.\d+(?:e[-+]?\d+)?(?![\w.])", "<x>", line)


def _row(line):
    """A row of a table keeps its columns: what was measured becomes stars of the same width at the right edge."""
    return re.sub(r" *(?<![\w.])\d+\.\d+(?:e[-+]?\d+)?", lambda m: "*".rjust(len(m.group(0))), line)


def fold(text):
    """Long lines of JSON on several, so that a difference can be read. Only line breaks and blanks are added."""
    lines = []
    for line in text.split("\n"):
        if len(line) > LONG_LINE and JSON_LINE.match(line):
            lines.append(_fold_line(line))
        else:
            lines.append(line)
    return "\n".join(lines)


def _fold_line(line):
    out, depth, stack = [], 0, []
    ends = _matching(line)
    inside = False
    for i, c in enumerate(line):
        out.append(c)
        if inside:
            inside = not (c == '"' and not _escaped(line, i))
        elif c == '"':
            inside = True
        elif c in "[{" and i in ends:
            broken = ends[i] - i > LONG_VALUE
            stack.append(broken)
            if broken:
                depth += 1
                out.append("\n" + " " * depth)
        elif c in "]}" and stack:
            if stack.pop():
                depth -= 1
                out.insert(len(out) - 1, "\n" + " " * depth)
        elif c == "," and stack and stack[-1]:
            out.append("\n" + " " * depth)
    return "".join(out)


def _escaped(line, at):
    backslashes = 0
    while at > 0 and line[at - 1] == "\\":
        backslashes, at = backslashes + 1, at - 1
    return backslashes % 2 == 1


def _matching(line):
    """Where each bracket closes."""
    ends, opened, inside = {}, [], False
    for i, c in enumerate(line):
        if inside:
            inside = not (c == '"' and not _escaped(line, i))
        elif c == '"':
            inside = True
        elif c in "[{":
            opened.append(i)
        elif c in "]}" and opened:
            ends[opened.pop()] = i
    return ends

