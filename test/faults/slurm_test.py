"""The bugs these would catch: a prolog that lets jobs onto a sick node, or drains a cluster because busbar itself is
broken; a batch script whose verdict is not its exit code, or that leaves out a node of its allocation. Both are the
examples of packaging/slurm, under the virtual cluster's Slurm."""

import json
import os
import re
import shlex
import shutil
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import suite  # noqa: E402

SOURCE = os.path.abspath(os.environ.get("BUSBAR_SOURCE", suite.ROOT))
EXAMPLES = os.path.join(SOURCE, "packaging", "slurm")
VCLUSTER = os.path.join(SOURCE, "scripts", "vcluster", "vcluster")
BUSBAR = os.path.join(suite.BUILD, "busbar" + suite.SUFFIX)
SKIPPED = 77
CODES = {"PASS": "0", "WARN": "0", "FAIL": "7", "INCONCLUSIVE": "8"}


def sandbox(script, env=None, cwd=None):
    """Two hosts with Slurm, then a bash script that its first failure ends; all of it at most VC_LIMIT seconds."""
    start = f'vcluster() {{ "{VCLUSTER}" "$@"; }}\nvcluster up 2\nvcluster slurm start\n'
    return suite.execute([VCLUSTER, "sandbox", "bash", "-ec", start + script], {"VC_LIMIT": "90", **(env or {})}, cwd)


class Slurm(suite.Case):
    def sandbox(self, script, env=None):
        result = sandbox(script, env, self.folder.name)
        if result.code == SKIPPED:
            print(result.err, file=sys.stderr)
            self.skipTest("no Slurm here")
        return self.ok(result).out

    def test_the_prolog_drains_a_sick_node_and_a_broken_busbar_drains_none(self):
        if suite.execute([BUSBAR, "doctor", "--local"]).code != 0:
            self.skipTest("this machine by itself is one that would be drained")
        with open(os.path.join(EXAMPLES, "prolog.sh"), encoding="utf-8") as file:
            text = file.read()
        prolog = self.write("prolog.sh", text.replace("\nbusbar=/usr/bin/busbar ", f"\nbusbar={self.path('busbar')} "))
        os.chmod(prolog, 0o755)
        os.chmod(self.write("busbar", "#!/bin/sh\nexit 1\n"), 0o755)
        # What a script waits for comes, or the sandbox's limit ends it.
        out = self.sandbox(f"""
            echo broken $(vcluster srun -N 2 hostname | sort)
            cat >{self.path('busbar')} <<<'#!/bin/sh
exec {BUSBAR} "$@"'
            echo well $(vcluster srun -N 2 hostname | sort)
            vcluster shm node1 4k
            job=$(vcluster sbatch --parsable -w node1 -o /dev/null --wrap true)
            until vcluster sinfo -h -n node1 -o %T | grep -q drain; do sleep 0.1; done
            vcluster scancel $job
            vcluster sinfo -h -N -n node0,node1 -o 'state %N %T %E'
            echo left $(vcluster srun -N 1 hostname)""", {"VC_SLURM": f"Prolog={prolog}\nPrologFlags=Alloc"})
        lines = out.splitlines()
        self.assertEqual(lines[:2], ["broken node0 node1", "well node0 node1"], out)
        self.assertRegex(lines[2], "^state node0 (idle|completing) none$")
        self.assertRegex(lines[3], "^state node1 drain.*Prolog error")
        self.assertEqual(lines[4:], ["left node0"], out)

    @unittest.skipIf(re.search("hydra|mpich", os.path.basename(suite.MPIRUN)), "the example is for Open MPI's mpirun")
    def test_the_batch_script_accepts_the_nodes_and_ends_with_the_verdict(self):
        os.mkdir(self.path("bin"))
        os.symlink(shutil.which(suite.MPIRUN), self.path("bin/mpirun"))
        os.chmod(self.write("bin/busbar", f'#!/bin/sh\nexec {shlex.quote(BUSBAR)} "$@"\n'), 0o755)
        script = os.path.join(EXAMPLES, "accept.sbatch")
        out = self.sandbox(f"""
            job=$(vcluster sbatch --parsable -N 2 --ntasks-per-node=1 {script} health-check --prometheus job.prom)
            while [ "$(vcluster squeue -h -j $job -t PD,R,CG)" ]; do sleep 0.2; done
            vcluster exec node0 env SLURM_CONF=/run/vcluster/slurm/slurm.conf scontrol show job $job
            cat busbar-accept-$job.hosts""", {"PATH": f"{self.path('bin')}:{os.environ['PATH']}"})
        job, code = re.search(r"JobId=(\d+)", out)[1], re.search(r"ExitCode=(\d+):0", out)[1]
        with open(self.path(f"busbar-accept-{job}.out"), encoding="utf-8") as file:
            told = file.read()
        self.assertEqual(out.splitlines()[-2:], ["node0 slots=1", "node1 slots=1"], out)
        with open(self.path(f"busbar-accept-{job}.json"), encoding="utf-8") as file:
            result = json.load(file)
        self.assertEqual([host["name"] for host in result["hosts"]], ["node0", "node1"], told)
        self.assertEqual(code, CODES[result["outcome"]], told)
        self.assertTrue(told.lstrip().startswith(result["outcome"]) or f"\n{result['outcome']}: " in told, told)
        for file in (f"busbar-accept-{job}.html", "job.prom"):
            self.assertTrue(os.path.getsize(self.path(file)) > 0, file)


if __name__ == "__main__":
    trial = suite.execute([VCLUSTER, "sandbox", "true"])
    if trial.code == SKIPPED or not shutil.which("slurmctld"):
        print(trial.err or "SKIP: no Slurm here", file=sys.stderr)
        sys.exit(SKIPPED)
    suite.main()
