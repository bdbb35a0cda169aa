"""The bugs these would catch: a dashboard or an alert that asks for a metric which busbar does not write, a manifest
with a key that Kubernetes drops, an example whose options busbar does not know, a prolog that drains a node because
busbar is missing, broken or stuck."""

import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import suite  # noqa: E402

try:
    import yaml
except ImportError:
    yaml = None
try:
    import jsonschema
except ImportError:
    jsonschema = None

PACKAGING = os.path.join(suite.ROOT, "packaging")
GRAFANA = os.path.join(PACKAGING, "grafana")
SLURM = os.path.join(PACKAGING, "slurm")
BUSBAR = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)
# What busbar wrote of a run in which everything occurred; prometheus_test.cpp holds it to the code.
METRICS = os.path.join(suite.ROOT, "test", "unit", "golden", "accept.prom")
# manifests/base/kubeflow.org_mpijobs.yaml of github.com/kubeflow/mpi-operator, which is not ours to ship.
CRD = os.environ.get("BUSBAR_MPIJOB_CRD") or os.path.expanduser("~/.cache/busbar/mpijob-crd.yaml")
# Functions and words of PromQL that stand where a metric's name can.
PROMQL = {"label_replace", "time", "max", "sum", "count", "by", "absent"}


def text_of(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def needs(*tools):
    missing = [tool for tool in tools if not shutil.which(tool)]
    return unittest.skipIf(missing, "not installed: " + ", ".join(missing))


def written():
    """Every metric that busbar writes, with its labels."""
    metrics = {}
    for name, labels in re.findall(r"^(busbar_\w+)\{(.*)\} ", text_of(METRICS), re.MULTILINE):
        metrics.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    for tool in ("locate", "doctor"):
        metrics[f"busbar_{tool}_outcome"] = metrics["busbar_accept_outcome"]
    return metrics


def selected(query, metrics):
    """The metrics that a query names, by themselves or as a pattern, with the labels that it asks of them."""
    for name, labels in re.findall(r"(\w*)\{(.*?)\}", query):
        asked = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', '""', labels))) - {"__name__", "instance"}
        if not name:
            pattern = re.search(r'__name__=~"([^"]*)"', labels)[1]
            yield from ((found, asked) for found in metrics if re.fullmatch(pattern, found))
        else:
            yield name, asked
    bare = re.sub(r"\w*\{.*?\}", "", re.sub(r'"(?:[^"\\]|\\.)*"', "", query))
    # What is grouped by are labels.
    for name in re.findall(r"[a-z]\w+", re.sub(r"\bby \([^)]*\)", "", bare)):
        if name not in PROMQL:
            yield name, set()


class Monitoring(suite.Case):
    def setUp(self):
        super().setUp()
        self.dashboard = json.loads(text_of(GRAFANA, "busbar.json"))

    def check(self, query):
        metrics = written()
        found = list(selected(query, metrics))
        self.assertTrue(found, query)
        for name, labels in found:
            self.assertIn(name, metrics, query)
            self.assertLessEqual(labels, metrics[name], query)
        return {name for name, _ in found}

    def test_doctor_writes_the_metrics_that_all_three_tools_share(self):
        file = self.path("doctor.prom")
        self.assertIn(suite.execute([BUSBAR, "doctor", "--local", "--prometheus", file]).code, (0, 7))
        names = set(re.findall(r"^(busbar_\w+)\{", text_of(file), re.MULTILINE))
        self.assertIn("busbar_doctor_outcome", names)
        self.assertLessEqual(names, set(written()))

    def test_panels_ask_for_what_busbar_writes_and_leave_nothing_out(self):
        shown = set()
        for panel in self.dashboard["panels"]:
            self.assertTrue(panel["targets"], panel["title"])
            for target in panel["targets"]:
                shown |= self.check(target["expr"])
        self.assertEqual(shown, set(written()))

    def test_labels_in_legends_are_written_too(self):
        every = set().union(*written().values()) | {"instance", "tool"}
        for panel in self.dashboard["panels"]:
            for target in panel["targets"]:
                self.assertLessEqual(set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", ""))), every)

    def test_variables_in_queries_are_declared_and_ask_for_what_is_written(self):
        declared = {variable["name"]: variable for variable in self.dashboard["templating"]["list"]}
        for name in re.findall(r"\$\{?([a-z]\w*)", text_of(GRAFANA, "busbar.json")):
            self.assertIn(name, declared)
        for variable in declared.values():
            if variable["type"] == "query":
                metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
                self.check(metric)
                self.assertIn(label, {"instance", *written()[re.match(r"\w+", metric)[0]]})

    def test_panels_do_not_lie_on_each_other(self):
        taken, numbers = set(), set()
        for panel in self.dashboard["panels"]:
            place = panel["gridPos"]
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                     for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(taken & cells, panel["title"])
            self.assertLess(max(x for x, _ in cells), 24, panel["title"])
            self.assertNotIn(panel["id"], numbers)
            taken |= cells
            numbers.add(panel["id"])

    @unittest.skipIf(yaml is None, "no python3-yaml")
    def test_alerts_ask_for_what_busbar_writes(self):
        rules = yaml.safe_load(text_of(GRAFANA, "alerts.yml"))["groups"][0]["rules"]
        alerts = {rule["alert"] for rule in rules}
        self.assertGreaterEqual(alerts, {"BusbarFail", "BusbarHostBlamed", "BusbarRunTooOld"})
        for rule in rules:
            names = self.check(rule["expr"])
            labels = set().union(*(written()[name] for name in names)) | {"instance", "tool"}
            for text in rule["annotations"].values():
                self.assertLessEqual(set(re.findall(r"\$labels\.(\w+)", text)), labels, rule["alert"])

    def test_a_metric_that_is_not_written_is_noticed(self):
        for wrong in ("busbar_blamed_hosts == 1", 'busbar_criterion{host="x"}', "sum by (host) (busbar_blamed)",
                      '{__name__=~"busbar_verdict"}'):
            with self.assertRaises(AssertionError, msg=wrong):
                self.check(wrong)

    @needs("promtool")
    def test_alerts_fire_where_they_must_and_nowhere_else(self):
        rules = os.path.join(GRAFANA, "alerts.yml")
        self.ok(suite.execute(["promtool", "check", "rules", rules]))
        well = ['busbar_accept_outcome{plan="p",outcome="FAIL"} 0', 'busbar_wrong_elements{plan="p"} 0',
                'busbar_accept_outcome{plan="p",outcome="INCONCLUSIVE"} 0',
                'busbar_last_run_timestamp_seconds{tool="accept",plan="p"} 0']
        # Of one plan, so that only the metric's name tells them apart.
        sick = ['busbar_doctor_outcome{plan="",outcome="FAIL"} 1', 'busbar_locate_outcome{plan="",outcome="FAIL"} 1',
                'busbar_blamed_host{tool="accept",plan="p",host="n2"} 1', 'busbar_wrong_elements{plan="p"} 3',
                'busbar_accept_outcome{plan="p",outcome="INCONCLUSIVE"} 1',
                'busbar_last_run_timestamp_seconds{tool="accept",plan="p"} 0']
        cases = [(well, "25h", {}), (well, "27h", {"BusbarRunTooOld": 1}), ([], "1h", {"BusbarNoRun": 1}),
                 (sick, "1h", {"BusbarFail": 2, "BusbarHostBlamed": 1, "BusbarWrongData": 1}),
                 (sick, "80h", {"BusbarFail": 2, "BusbarHostBlamed": 1, "BusbarWrongData": 1, "BusbarNoVerdict": 1,
                                "BusbarRunTooOld": 1})]
        tests = []
        for series, when, fired in cases:
            tests.append({
                "interval": "10m",
                "input_series": [{"series": one.rsplit(" ", 1)[0], "values": one.rsplit(" ", 1)[1] + "+0x600"}
                                 for one in series],
                "promql_expr_test": [{
                    "expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": when,
                    "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": count}
                                    for name, count in fired.items()]}]})
        # JSON is YAML.
        file = self.write("test.yml", json.dumps({"rule_files": [rules], "evaluation_interval": "10m", "tests": tests}))
        self.ok(suite.execute(["promtool", "test", "rules", file]))


# Ranks and two servers.
@suite.in_more
class Scraped(suite.Case):
    @needs("prometheus", "prometheus-node-exporter")
    def test_every_panel_has_data_of_a_run_that_failed(self):
        plan = self.write("plan.yaml", """schema: 1
title: a test
stages: [per-host, whole]
locate-on-fail: false
defaults: {rel-ci: 2%, cell-time: 2, placement: out, sizes: 64K, criteria: {wrong: 0}}
cells:
  - {name: inside, collective: all_reduce, stages: per-host}
  - {name: one, collective: all_reduce, stages: whole}
""")
        run, look = self.path("accept.prom"), self.path("doctor.prom")
        failed = suite.mpirun(2, [BUSBAR, "accept", plan, "--backend", "mpi", "--inject", "rank=1,op=10,kind=drop",
                                  "--prometheus", run], cwd=self.folder.name)
        self.assertEqual(failed.code, 7, str(failed))
        suite.execute([BUSBAR, "doctor", "--local", "--prometheus", look])
        result = self.ok(suite.execute([os.path.join(PACKAGING, "check_monitoring.py"), run, look]))
        print(result.out)
        self.assertRegex(result.out, r"firing +BusbarFail\n")


def closed(schema):
    """The same, but a key that it does not know is an error, as with `kubectl apply`'s strict validation."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: closed(part) for key, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        result.setdefault("additionalProperties", False)
    return result


@unittest.skipIf(yaml is None, "no python3-yaml")
class Kubernetes(suite.Case):
    def setUp(self):
        super().setUp()
        documents = list(yaml.safe_load_all(text_of(PACKAGING, "kubernetes", "mpijob.yaml")))
        self.claim = next(d for d in documents if d["kind"] == "PersistentVolumeClaim")
        self.job = next(d for d in documents if d["kind"] == "MPIJob")
        self.pods = {role: replica["template"]["spec"] for role, replica in self.job["spec"]["mpiReplicaSpecs"].items()}

    @unittest.skipIf(jsonschema is None, "no python3-jsonschema")
    @unittest.skipUnless(os.path.exists(CRD), "no CRD of mpi-operator (BUSBAR_MPIJOB_CRD)")
    def test_the_manifest_is_what_the_custom_resource_wants(self):
        definition = yaml.load(text_of(CRD), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        group, version = self.job["apiVersion"].split("/")
        self.assertEqual(definition["spec"]["group"], group)
        schema = next(v for v in definition["spec"]["versions"] if v["name"] == version)["schema"]["openAPIV3Schema"]
        validator = jsonschema.Draft4Validator(closed(schema))

        def errors():
            return [f"{list(error.path)}: {error.message}" for error in validator.iter_errors(self.job)]
        self.assertEqual(errors(), [])
        # Seen to fire: a key that is misspelt, and a value of another type.
        self.job["spec"]["runPolicy"]["backofLimit"] = 0
        self.pods["Worker"]["containers"][0]["command"] = "sshd"
        self.assertEqual(len(errors()), 2, errors())

    def test_volumes_and_claims_have_the_names_by_which_they_are_used(self):
        for pod in self.pods.values():
            volumes = {volume["name"]: volume for volume in pod["volumes"]}
            for container in pod["containers"]:
                self.assertEqual({mount["name"] for mount in container["volumeMounts"]}, set(volumes))
                self.assertIn(container["workingDir"], [mount["mountPath"] for mount in container["volumeMounts"]])
            claims = [v["persistentVolumeClaim"]["claimName"] for v in volumes.values() if "persistentVolumeClaim" in v]
            self.assertEqual(claims, [self.claim["metadata"]["name"]])

    def test_user_keys_and_port_are_those_of_the_image(self):
        image = text_of(PACKAGING, "Containerfile")
        user = int(re.search(r"^USER (\d+)$", image, re.MULTILINE)[1])
        self.assertIn(f"--uid {user} ", image)
        for pod in self.pods.values():
            self.assertEqual(pod["securityContext"]["runAsUser"], user)
        self.assertIn(f"HostKey {self.job['spec']['sshAuthMountPath']}/id_rsa", image)
        worker = self.pods["Worker"]["containers"][0]
        self.assertIn(f">{worker['command'][-1]}\n", image)
        self.assertEqual(image.count(f"'Port {worker['readinessProbe']['tcpSocket']['port']}'"), 2)

    def test_busbar_takes_the_launchers_command(self):
        launcher = self.pods["Launcher"]["containers"][0]
        hosts = self.write("hostfile", "a.b.c.svc slots=2\nd.b.c.svc slots=2\n")
        words = [word.replace("/etc/mpi/hostfile", hosts) for word in launcher["command"] + launcher["args"]]
        self.assertEqual(words[0], "busbar")
        told = self.ok(suite.execute([BUSBAR, *words[1:], "--backend", "mpi", "--dry-run"], cwd=self.folder.name)).out
        self.assertIn("# acceptance: acceptance\n", told)


class Container(suite.Case):
    @needs("hadolint")
    def test_hadolint_has_nothing_to_say(self):
        self.ok(suite.execute(["hadolint", os.path.join(PACKAGING, "Containerfile")]))

    def test_what_is_copied_is_there_and_every_stage_is_of_the_given_base(self):
        text = text_of(PACKAGING, "Containerfile")
        for source in re.findall(r"^COPY ([^-]\S*) ", text, re.MULTILINE):
            self.assertTrue(os.path.exists(os.path.join(suite.ROOT, source)), source)
        self.assertEqual({base for base in re.findall(r"^FROM (\S+)", text, re.MULTILINE)}, {"${BASE}"})
        self.assertRegex(text, r"(?m)^ARG BASE=\S+\n")


class Slurm(suite.Case):
    def scripts(self):
        return sorted(glob.glob(os.path.join(SLURM, "*")))

    def executable(self, name, text):
        os.chmod(self.write(name, text), 0o755)
        return self.path(name)

    def test_scripts_are_well_formed(self):
        self.assertEqual([os.path.basename(script) for script in self.scripts()], ["accept.sbatch", "plain_srun.sbatch", "prolog.sh"])
        for script in self.scripts():
            self.ok(suite.execute(["bash", "-n", script]))
            self.assertTrue(os.access(script, os.X_OK), script)
        # A prolog that calls Slurm's commands waits for daemons that wait for it.
        code = re.sub(r"(?m)(^| )#.*$", "", text_of(SLURM, "prolog.sh"))
        self.assertNotRegex(code, r"\b(scontrol|sinfo|squeue|srun|salloc|sbatch|scancel|sacct\w*)\b")

    @needs("shellcheck")
    def test_shellcheck_has_nothing_to_say(self):
        self.ok(suite.execute(["shellcheck", *self.scripts()]))

    def prolog(self, busbar, **settings):
        """What the prolog says and ends with, as Slurm starts it: without PATH and HOME."""
        text = text_of(SLURM, "prolog.sh")
        for name, value in {"busbar": busbar, **settings}.items():
            text, changed = re.subn(rf"(?m)^{name}=\S+ ", f"{name}={value} ", text)
            self.assertEqual(changed, 1, name)
        script = self.executable("prolog.sh", text)
        return suite.execute(["env", "-i", "SLURM_JOB_ID=42", script], cwd="/")

    def fake(self, script):
        return self.executable("fake", "#!/bin/bash\n" + script)

    def test_a_node_that_fails_is_drained(self):
        with open(os.path.join(suite.ROOT, "test", "doctor", "dgx_h100.txt"), encoding="utf-8") as file:
            machine = self.write("machine.txt", file.read() + "\nlimit memlock 65536\n")
        sick = self.fake(f"exec {BUSBAR} doctor --recorded {machine}\n")
        result = self.prolog(sick)
        self.assertEqual(result.code, 1, str(result))
        self.assertTrue(result.out.startswith("job 42, drain=yes: doctor: FAIL: "), str(result))
        self.assertIn("FAIL host.memlock", result.out)
        watched = self.prolog(sick, drain="no")
        self.assertEqual(watched.code, 0, str(watched))
        self.assertIn("FAIL host.memlock", watched.out)

    def test_a_node_that_is_well_is_not_and_nothing_is_said(self):
        result = self.prolog(self.fake('[ "$*" = "doctor --local" ] || exit 7\necho "doctor: OK"\n'))
        self.assertEqual((result.code, result.out), (0, ""), str(result))

    def test_a_busbar_that_is_missing_broken_or_stuck_drains_nothing(self):
        told = 'echo "doctor: FAIL: 1 node"\n'
        stuck = {told + "sleep 1000": 124, "trap '' TERM; sleep 1000; sleep 1000": 137}
        for script, code in {"": 127, "exit 255": 255, told + "exit 1": 1, "exit 7": 7, told + "kill -KILL $$": 137,
                             **stuck}.items():
            with self.subTest(script):
                limit = {"limit_s": 1} if script in stuck else {}
                result = self.prolog(self.fake(script) if script else self.path("none"), **limit)
                self.assertEqual(result.code, 0, str(result))
                self.assertIn("job 42: the node was not looked at", result.out)
                self.assertIn(f"exit code {code}\n", result.out)

    def test_a_process_that_nothing_ends_is_not_waited_for(self):
        # As one that waits for a dead file server: here it leaves the group that is killed, with the pipe in its hands.
        pid = self.write("pid", "")
        try:
            result = self.prolog(self.fake(f"setsid sleep 1000 &\necho $! >{pid}\nwait\n"), limit_s=1)
        finally:
            subprocess.run(["kill", "-KILL", *text_of(pid).split()], check=False)
        self.assertEqual(result.code, 0, str(result))
        self.assertIn("the node was not looked at", result.out)

    def test_the_batch_script_gives_all_nodes_to_busbar(self):
        os.mkdir(self.path("bin"))
        self.executable("bin/sinfo", "#!/bin/sh\nprintf 'n10\\nn2\\nn2\\n'\n")
        self.executable("bin/busbar", f"#!/bin/sh\nprintf '%s\\n' \"$@\" >words\nexec {shlex.quote(BUSBAR)} \"$@\"\n")
        env = {"PATH": f"{self.path('bin')}:{os.environ['PATH']}", "SLURM_JOB_ID": "42",
               "SLURM_JOB_NODELIST": "n[2,10]", "SLURM_NTASKS_PER_NODE": "4"}
        script = os.path.join(SLURM, "accept.sbatch")
        self.ok(suite.execute([script, "health-check", "--backend", "mpi", "--dry-run"], env, self.folder.name))
        self.assertEqual(text_of(self.path("busbar-accept-42.hosts")), "n2 slots=4\nn10 slots=4\n")
        words = text_of(self.path("words")).splitlines()
        self.assertEqual(words[:4], ["accept", "health-check", "--launch",
                                     "mpirun -n {ranks} --hostfile busbar-accept-42.hosts {cmd}"])
        self.assertIn("busbar-accept-42.json", words)
        suite.execute([script, "health-check", "--resume", "old.json", "--dry-run"], env, self.folder.name)
        self.assertNotIn("-J", text_of(self.path("words")).splitlines())


if __name__ == "__main__":
    suite.main()
