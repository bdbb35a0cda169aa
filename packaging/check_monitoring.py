#!/usr/bin/env python3
"""Asks a real Prometheus what the dashboard asks: every panel's query must return data, every rule be evaluated.

    packaging/check_monitoring.py FILE.prom...

Debian's node-exporter (its textfile collector alone) and Prometheus run on loopback and are gone at the end. The files
must hold what only a run that failed writes, too (deploy_test.py makes one). Exit code 1 where something returns no
data, 77 where the two are not installed."""

import contextlib
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

GRAFANA = pathlib.Path(__file__).resolve().parent / "grafana"
LIMIT_S = 60
SCRAPE_S = 1


def free_ports(count):
    """Both held until all are known, so that they are not one."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextlib.contextmanager
def running(command, log):
    """The kernel ends it where this process is killed; its log is shown where it ends too early."""
    with open(log, "w", encoding="utf-8") as file:
        child = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], stdin=subprocess.DEVNULL, stdout=file,
                                 stderr=file)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


class Prometheus:
    def __init__(self, port):
        self.address = f"http://127.0.0.1:{port}/api/v1/"

    def ask(self, path, **arguments):
        # Never by a proxy: it is on this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.address}{path}?{urllib.parse.urlencode(arguments)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def series(self, query, over_time):
        if over_time:
            now = time.time()
            return self.ask("query_range", query=query, start=now - 60, end=now, step=SCRAPE_S)["result"]
        return self.ask("query", query=query)["result"]


def until(true, children, what):
    end = time.monotonic() + LIMIT_S
    while not true():
        if any(child.poll() is not None for child in children):
            raise SystemExit(f"{what}: a process ended by itself")
        if time.monotonic() > end:
            raise SystemExit(f"{what}: not within {LIMIT_S} s")
        time.sleep(0.1)


def answered(question):
    try:
        return bool(question())
    except (OSError, ValueError):
        return False


def targets(dashboard):
    """(panel's title, query, whether it is asked over time)"""
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target["range"]


def with_variables(query, dashboard):
    """As Grafana fills it in while nothing but the defaults is chosen."""
    for variable in dashboard["templating"]["list"]:
        value = variable.get("allValue") or "|".join(variable.get("current", {}).get("value", []))
        query = query.replace("$" + variable["name"], value)
    return query


def complaints(prometheus, dashboard):
    for title, query, over_time in targets(dashboard):
        found = prometheus.series(with_variables(query, dashboard), over_time)
        print(f"{len(found):4} series  {title}")
        if not found:
            yield f"no data: {title}: {query}"
    for variable in dashboard["templating"]["list"]:
        match = re.fullmatch(r"label_values\((.*), (\w+)\)", (variable["query"] if isinstance(variable["query"], str)
                                                               else variable["query"]["query"]))
        if match and not prometheus.ask(f"label/{match[2]}/values", **{"match[]": with_variables(match[1], dashboard)}):
            yield f"no value: variable {variable['name']}"
    for rule in rules_of(prometheus):
        print(f"{rule['state']:>11}  {rule['name']}")
        if rule["health"] != "ok":
            yield f"rule {rule['name']}: {rule['health']}: {rule.get('lastError', '')}"


def rules_of(prometheus):
    return [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]


def evaluations(prometheus):
    return {(rule["name"], rule["lastEvaluation"]) for rule in rules_of(prometheus)}


def check(files, folder):
    textfiles = folder / "textfiles"
    textfiles.mkdir()
    for number, file in enumerate(files):
        shutil.copy(file, textfiles / f"{number}.prom")
    exporter_port, prometheus_port = free_ports(2)
    config = {"global": {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": f"{SCRAPE_S}s"},
              "rule_files": [str(GRAFANA / "alerts.yml")],
              "scrape_configs": [{"job_name": "node", "static_configs": [{"targets": [f"127.0.0.1:{exporter_port}"]}]}]}
    (folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    exporter = ["prometheus-node-exporter", "--collector.disable-defaults", "--collector.textfile",
                f"--collector.textfile.directory={textfiles}", f"--web.listen-address=127.0.0.1:{exporter_port}"]
    server = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
              f"--web.listen-address=127.0.0.1:{prometheus_port}"]
    dashboard = json.loads((GRAFANA / "busbar.json").read_text(encoding="utf-8"))
    prometheus = Prometheus(prometheus_port)
    with running(exporter, folder / "exporter.log") as first, running(server, folder / "prometheus.log") as second:
        try:
            until(lambda: answered(lambda: prometheus.series('count({__name__=~"busbar_.+"})', False)), (first, second),
                  "no metric of busbar was scraped")
            # Once more, with what was scraped.
            before = evaluations(prometheus)
            until(lambda: answered(lambda: not before & evaluations(prometheus)), (first, second),
                  "the rules were not evaluated")
            if prometheus.series("node_textfile_scrape_error > 0", False):
                raise SystemExit("node-exporter did not take a file")
            return list(complaints(prometheus, dashboard))
        except SystemExit:
            for log in ("exporter.log", "prometheus.log"):
                print((folder / log).read_text(encoding="utf-8", errors="replace")[-2000:], file=sys.stderr)
            raise


def main():
    files = sys.argv[1:]
    if not files or files[0].startswith("-"):
        print(__doc__)
        return 2
    for tool in ("setpriv", "prometheus", "prometheus-node-exporter"):
        if not shutil.which(tool):
            print(f"SKIP: {tool} is not installed")
            return 77
    with tempfile.TemporaryDirectory() as folder:
        found = check(files, pathlib.Path(folder))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
