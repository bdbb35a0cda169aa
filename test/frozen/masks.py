"""Takes out of a program's output what differs from run to run or machine to machine, and nothing else."""

import datetime
import re
import socket
import time

STAMP = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)([ T]|\n +)(\d\d):(\d\d):(\d\d)\b")
STARTED_S = time.time()
SLACK_S = 60


class Masks:
    """`folders`: path -> the name to show instead; `version`: busbar's own."""

    def __init__(self, folders, version):
        self.folders = sorted(folders.items(), key=lambda item: -len(item[0]))
        self.version = re.escape(version)
        self.host = socket.gethostname()

    def of(self, text):
        for path, name in self.folders:
            text = text.replace(path, name)
        text = re.sub(r"(?<![0-9.])" + self.version + r"(?!\.?\d)", "<version>", text)
        text = re.sub(r"Open MPI \d+\.\d+(\.\d+)?\w*", "Open MPI <v>", text)
        text = re.sub(r"(busbar diagnose on )[\w.-]+", r"\1<host>", text)
        text = text.replace(f'"{self.host}"', '"<host>"')
        text = re.sub(r'(launch_uuid"?: ?)"[0-9a-f-]+"', r'\1"<uuid>"', text)
        age = r"\S+ (?:s|min|h|days)"  # of jobs with flight records
        text = re.sub(rf"(?m)^(\S+) +{age} +{age}( +\d+  \d+ [a-z])", r"\1 <age> <age>\2", text)
        text = STAMP.sub(_if_now, text)
        return re.sub(r"\b\d{10}(\.\d+)?\b", _if_epoch_now, text)


def _is_of_this_test(seconds):
    """Times in recorded files stay, however young the files: the clock must not decide what a case says."""
    return STARTED_S - SLACK_S < seconds < time.time() + SLACK_S


def _if_now(match):
    # The programs run with TZ=UTC.
    told = datetime.datetime(*(int(match.group(i)) for i in (1, 2, 3, 5, 6, 7)), tzinfo=datetime.timezone.utc)
    return "<now>" if _is_of_this_test(told.timestamp()) else match.group(0)


def _if_epoch_now(match):
    return "<now_s>" if _is_of_this_test(float(match.group(0))) else match.group(0)
