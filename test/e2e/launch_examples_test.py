#!/usr/bin/env python3
"""The examples of packaging/ that start ranks without MPI. Would catch: a number of pods that is changed in one of three
places, a name for rank 0 that no DNS knows, a command that busbar refuses, and scripts that lose an argument."""

import os
import shutil
import unittest

import suite
from env_launch_test import SMALL, Ranks, free_port
from suite import Case, program

try:
    import yaml
except ImportError:
    yaml = None

PACKAGING = os.path.join(suite.ROOT, "packaging")
HAS_GLOO = os.path.exists(os.path.join(suite.BUILD, "libbusbar_gloo.so"))


def documents(*path):
    with open(os.path.join(PACKAGING, *path), encoding="utf-8") as file:
        return {document.get("kind"): document for document in yaml.safe_load_all(file)}


class Examples(Case):
    def runs(self, command, environments, launcher):
        """The processes of an example, here and met over loopback."""
        self.assertTrue(environments)
        if not HAS_GLOO:
            return
        job = Ranks(self.folder.name, 0)
        job.place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(job.port)}
        for environment in environments:
            job.start(None, [os.path.join(suite.BUILD, command[0] + suite.SUFFIX), *command[1:]],
                      **{name: value for name, value in environment.items() if name not in job.place})
        results = job.results()
        for result in results:
            self.ok(result)
        results[0].line(f"# {len(environments)} processes over TCP ({launcher}), no MPI")
        self.assertGreater(len(results[0].rows()), 3)

    def check_pods(self, job, name, subdomain):
        """A Job whose pods are called NAME-INDEX.SUBDOMAIN."""
        pod = job["template"]["spec"]
        container, = pod["containers"]
        environment = {setting["name"]: setting["value"] for setting in container["env"]}
        for text in (*environment.values(), *container["command"]):
            self.assertIsInstance(text, str)  # Kubernetes takes no numbers here
        self.assertEqual({str(job["completions"]), str(job["parallelism"])}, {environment["WORLD_SIZE"]})
        self.assertEqual(environment["MASTER_ADDR"], f"{name}-0.{subdomain}")
        self.assertEqual((job["completionMode"], job["backoffLimit"], pod["restartPolicy"]), ("Indexed", 0, "Never"))
        rule, = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        self.assertEqual(rule["labelSelector"]["matchLabels"], job["template"]["metadata"]["labels"])
        self.assertEqual([v["name"] for v in pod["volumes"]], [m["name"] for m in container["volumeMounts"]])
        self.runs(container["command"],
                  [{**environment, "JOB_COMPLETION_INDEX": str(i)} for i in range(job["completions"])], "k8s")

    @unittest.skipIf(yaml is None, "no python3-yaml")
    def test_the_indexed_job(self):
        found = documents("kubernetes", "indexed_job.yaml")
        service, job = found["Service"], found["Job"]
        name = job["metadata"]["name"]
        self.assertEqual(service["spec"]["selector"], {"job-name": name})
        self.assertEqual((service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]), ("None", True))
        self.assertEqual(job["spec"]["template"]["spec"]["subdomain"], service["metadata"]["name"])
        self.check_pods(job["spec"], name, service["metadata"]["name"])

    @unittest.skipIf(yaml is None, "no python3-yaml")
    def test_the_jobset(self):
        jobset = documents("kubernetes", "jobset.yaml")["JobSet"]
        part, = jobset["spec"]["replicatedJobs"]
        network = jobset["spec"]["network"]
        self.assertTrue(network["enableDNSHostnames"] and network["publishNotReadyAddresses"])
        self.assertEqual(part["replicas"], 1)
        self.check_pods(part["template"]["spec"], f"{jobset['metadata']['name']}-{part['name']}-0", network["subdomain"])

    @unittest.skipIf(yaml is None, "no python3-yaml")
    def test_compose(self):
        services = documents("launch", "compose.yaml")[None]["services"]
        environments = [service["environment"] for service in services.values()]
        self.assertEqual([e["RANK"] for e in environments], [str(i) for i in range(len(services))])
        first = next(iter(services))
        self.assertEqual({(e["WORLD_SIZE"], e["MASTER_ADDR"]) for e in environments}, {(str(len(services)), first)})
        self.runs(services[first]["command"], environments, "env")

    @unittest.skipUnless(HAS_GLOO, "built without Gloo")
    def test_the_loop_over_ssh(self):
        script = os.path.join(PACKAGING, "launch", "ssh_loop.sh")
        os.mkdir(self.path("bin"))
        os.chmod(self.write("bin/ssh", '#!/bin/sh\necho "$3" >>hosts\nexec sh -c "$4"\n'), 0o755)
        env = {"PATH": f"{self.path('bin')}:{os.environ['PATH']}", "MASTER_PORT": str(free_port())}
        hosts = ["me@127.0.0.1", "127.0.0.2", "127.0.0.3"]
        result = self.ok(suite.execute([script, *hosts, "--", program("all_reduce"), *SMALL], env, self.folder.name))
        result.line("# 3 processes over TCP (env), no MPI")
        with open(self.path("hosts"), encoding="utf-8") as file:
            self.assertEqual(sorted(file.read().split()), sorted(hosts))
        for words, code in ((["sh", "-c", "exit $((5 * RANK))"], 5), (["test", "a b", "=", "a b"], 0), ([], 255)):
            self.assertEqual(suite.execute([script, *hosts, "--", *words], env, self.folder.name).code, code, words)

    @unittest.skipUnless(HAS_GLOO and shutil.which("torchrun"), "no Gloo or no torchrun")
    def test_torchrun(self):
        # With redirection, because that of PyTorch 1.13 does not start without it under Python 3.11.
        env = {"PROCESSES": "2", "RDZV_PORT": str(free_port()), "PET_REDIRECTS": "1", "PET_TEE": "1"}
        script = os.path.join(PACKAGING, "launch", "torchrun.sh")
        result = suite.execute([script, "localhost", "1", program("all_reduce"), *SMALL], env, self.folder.name)
        self.assertIn("# 2 processes over TCP (torchrun), no MPI\n", self.ok(result).out)


if __name__ == "__main__":
    suite.main()
