"""The bugs these would catch: virtual hosts that are one host after all (one name, one /dev/shm, traffic that never
leaves the machine's memory), a fault that is injected and does nothing, a cluster that outlives its sandbox. The tests
of hangs stand on all of this."""

import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import suite  # noqa: E402
from suite import Case, execute, program  # noqa: E402

SOURCE = os.environ.get("BUSBAR_SOURCE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
VCLUSTER = os.path.abspath(os.path.join(SOURCE, "scripts", "vcluster", "vcluster"))
SKIPPED = 77
# Whether `from` reaches `to`: nobody listens there, so that a refusal, which is quick, means yes.
REACHES = """
reaches() {
  if vcluster exec node$1 timeout 1 bash -c "echo >/dev/tcp/198.18.7.$(($2 + 1))/9" 2>/dev/null; [ $? = 124 ]
  then echo no; else echo yes; fi
}
"""


def sandbox(script, env=None, cwd=None):
    """A bash script in a sandbox, ended by its first failure."""
    return execute([VCLUSTER, "sandbox", "bash", "-ec", f'vcluster() {{ "{VCLUSTER}" "$@"; }}\n{script}'],
                   {"VC_LIMIT": "120", **(env or {})}, cwd)


def mounts():
    with open("/proc/self/mounts", encoding="utf-8") as file:
        return sorted(file)


def links():
    return sorted(os.listdir("/sys/class/net"))


def until(true, limit_s=20):
    end = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def processes_in(namespace):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/ns/pid") == namespace:
                found.append(pid)
        except OSError:
            pass
    return found


class VirtualCluster(Case):
    def perf(self, json_name, *options):
        return " ".join([os.path.abspath(program("all_reduce")), "--backend", "mpi", "-b", "1M", "-e", "1M", "-w", "1",
                         "-n", "5", "-J", self.path(json_name + ".json"), *options])

    def result(self, json_name):
        with open(self.path(json_name + ".json"), encoding="utf-8") as file:
            return json.load(file)

    def overlimits(self, name):
        """How often a packet had to wait for the limit of 100 Mbit/s, by `tc -s qdisc show`; nothing: no such limit."""
        with open(self.path(name), encoding="utf-8") as file:
            found = re.search(r"\btbf\b.* rate 100Mbit .*overlimits (\d+)", file.read(), re.DOTALL)
        return found and int(found[1])

    def test_ranks_on_four_hosts_are_right_and_a_slow_link_holds_them_back(self):
        self.ok(sandbox(f"""
            vcluster up 4
            vcluster mpirun -np 8 {self.perf("healthy1")}
            shaped() {{ # HOST FILE
              vcluster exec $1 tc -s qdisc show dev eth0 >{self.path("")}$2.sends
              tc -s qdisc show dev port${{1#node}} >{self.path("")}$2.receives
            }}
            vcluster rate node2 both 100mbit
            shaped node2 both_before
            vcluster mpirun -np 8 {self.perf("slow")}
            shaped node2 both_after
            vcluster rate node2 both 1gbit
            vcluster rate node1 tx 100mbit
            shaped node1 tx_before
            vcluster mpirun -np 8 {self.perf("slow_tx")}
            shaped node1 tx_after
            vcluster rate node1 tx 1gbit
            vcluster mpirun -np 8 {self.perf("healthy2")}
            vcluster counters > {self.path("counters")}"""))
        for name in ("healthy1", "slow", "slow_tx", "healthy2"):
            result = self.result(name)
            self.assertEqual(result["busbar"]["hosts"], ["node0", "node1", "node2", "node3"])
            self.assertEqual(result["results"][0]["out_of_place"]["nwrong"], 0)
            self.assertEqual(result["results"][0]["in_place"]["nwrong"], 0)
        for limited in ("both_{}.sends", "both_{}.receives", "tx_{}.sends"):
            self.assertGreater(self.overlimits(limited.format("after")), self.overlimits(limited.format("before")), limited)
        self.assertIsNone(self.overlimits("tx_after.receives"))
        with open(self.path("counters"), encoding="utf-8") as file:
            for line in file:
                # 4 runs of 2 passes of at least 6 operations; in each a host sends 2 x 3/4 MiB at least.
                sent = int(line.split("tx_bytes=")[1].split()[0])
                self.assertGreater(sent, 4 * 2 * 6 * 1.5 * 2**20, line)

    def test_hosts_have_names_memory_and_files_of_their_own(self):
        result = self.ok(sandbox("""
            vcluster up 2
            vcluster exec node0 sh -c 'hostname; touch /dev/shm/here $TMPDIR/here; ls /sys/class/net'
            vcluster exec node1 sh -c 'hostname; ls /dev/shm $TMPDIR | grep here || echo not here'
            vcluster shm node0 full
            vcluster exec node0 sh -c 'echo 1 2>/dev/null >/dev/shm/other || echo full'
            vcluster exec node1 sh -c 'echo 1 >/dev/shm/other && echo room'
            vcluster down
            vcluster up 1 none
            vcluster exec node0 hostname"""))
        self.assertEqual(result.out.split("\n"),
                         ["node0", "eth0", "lo", "node1", "not here", "full", "room", "node0", ""])

    def test_faults_of_the_network_are_where_they_were_put(self):
        result = sandbox(REACHES + """
            vcluster up 3
            echo healthy $(reaches 0 1) $(reaches 1 2) $(reaches 2 0)
            vcluster link node1 down
            echo down $(reaches 0 1) $(reaches 1 2) $(reaches 2 0)
            vcluster link node1 up
            vcluster mtu node1 600
            mtu() { vcluster exec $1 cat /sys/class/net/eth0/mtu; }
            echo mtu $(mtu node1) $(mtu node0)
            vcluster cut node0 node2
            echo cut $(reaches 0 1) $(reaches 1 2) $(reaches 2 0)
            vcluster heal
            echo healed $(reaches 0 1) $(reaches 1 2) $(reaches 2 0)""")
        if result.code == SKIPPED:
            self.skipTest(result.err)
        self.assertEqual(self.ok(result).out.split("\n"),
                         ["healthy yes yes yes", "down no no yes", "mtu 600 1500", "cut yes yes no",
                          "healed yes yes yes", ""])

    def test_processes_of_one_host_can_be_stopped_slowed_and_killed(self):
        result = sandbox("""
            vcluster up 2
            vcluster exec node0 sleep 100 & vcluster exec node1 sleep 100 &
            vcluster exec node1 sh -c 'while :; do :; done' & busy=$!
            until [ "$(vcluster pids node0 sleep)" ] && [ "$(vcluster pids node1 sleep)" ]; do sleep 0.1; done
            state() { ps -o state= -p $(vcluster pids $1 sleep); }
            vcluster freeze node1; echo frozen $(state node0) $(state node1)
            vcluster thaw node1; echo thawed $(state node0) $(state node1)
            vcluster cpu node1 5
            group=$(find /sys/fs/cgroup -maxdepth 2 -name "vcluster.$VC_SANDBOX.node1" | head -n 1)
            until grep -q '^nr_throttled [1-9]' "$group/cpu.stat"; do sleep 0.1; done  # as below
            kill -0 $busy; echo held back
            vcluster cpu node1 max
            vcluster powercut node1
            while [ "$(vcluster pids node1)" ]; do sleep 0.1; done  # the sandbox's limit ends it otherwise
            echo dead $(vcluster pids node0 sleep | wc -l) $(vcluster pids node1 | wc -l)""")
        if result.code == SKIPPED:
            self.skipTest(result.err)
        words = self.ok(result).out.split()
        self.assertEqual(words[:6], ["frozen", "S", "T", "thawed", "S", "S"], str(result))
        self.assertEqual(words[6:], ["held", "back", "dead", "1", "0"], str(result))

    def test_slurm_runs_jobs_over_the_hosts(self):
        result = sandbox(f"""
            vcluster up 4
            vcluster slurm start
            vcluster srun -N 4 hostname | sort
            vcluster salloc -Q -N 4 -n 8 --ntasks-per-node=2 mpirun {self.perf("salloc")} >&2
            srun_mpi() {{ vcluster srun --mpi=pmix -N 4 -n 8 --ntasks-per-node=2 {self.perf("srun")} >&2; }}
            srun_mpi || {{ echo retried; srun_mpi; }}""")
        if result.code == SKIPPED:
            print(result.err, file=sys.stderr)
            self.skipTest("no Slurm here")
        names = self.ok(result).out.split()
        self.assertEqual(names[:4], ["node0", "node1", "node2", "node3"])
        if "retried" in names:
            print("srun --mpi=pmix failed once and was tried again", file=sys.stderr)
        for name in ("salloc", "srun"):
            self.assertEqual(self.result(name)["busbar"]["hosts"], ["node0", "node1", "node2", "node3"])
            self.assertEqual(self.result(name)["results"][0]["out_of_place"]["nwrong"], 0)

    def gone_after(self, how):
        before = (mounts(), links())
        command = f"""
            vcluster() {{ "{VCLUSTER}" "$@"; }}
            vcluster up 2
            vcluster cpu node1 50 || true
            vcluster slurm start || true
            vcluster mpirun -np 4 sleep 1000 &
            until [ "$(vcluster pids node1 sleep)" ]; do sleep 0.1; done
            echo ready; wait"""
        process = subprocess.Popen([VCLUSTER, "sandbox", "bash", "-c", command], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                   env=dict(os.environ, VC_LIMIT="60"))
        with process:
            try:
                self.assertEqual(process.stdout.readline(), "ready\n")
                mine = os.readlink("/proc/self/ns/pid")
                namespaces = {os.readlink(f"/proc/{child}/ns/pid_for_children") for child in self.children(process.pid)}
                self.assertEqual(len(namespaces - {mine}), 1)
                namespace = (namespaces - {mine}).pop()
                self.assertGreater(len(processes_in(namespace)), 8)
            finally:
                process.send_signal(how)
        self.assertTrue(until(lambda: not processes_in(namespace)), f"left: {processes_in(namespace)}")
        self.assertTrue(until(lambda: (mounts(), links()) == before), "mounts or links are left")
        self.ok(sandbox("true"))  # what a killed one could not remove is removed by the next
        for folder, names, _ in os.walk("/sys/fs/cgroup"):
            self.assertFalse([name for name in names if name.startswith("vcluster.")], folder)
            names[:] = names if folder == "/sys/fs/cgroup" else []

    @staticmethod
    def children(pid):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
            return file.read().split()

    def test_nothing_is_left_of_a_killed_sandbox(self):
        self.gone_after(signal.SIGKILL)

    def test_nothing_is_left_of_a_terminated_sandbox(self):
        self.gone_after(signal.SIGTERM)

    def test_a_sandbox_ends_at_its_limit_and_passes_on_exit_codes(self):
        self.assertEqual(sandbox("sleep 100", {"VC_LIMIT": "1"}).code, 124)
        self.assertEqual(sandbox("exit 5").code, 5)

    def test_where_namespaces_are_not_permitted_it_says_so(self):
        os.mkdir(self.path("bin"))
        fake = self.write("bin/unshare", "#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2; exit 1\n")
        os.chmod(fake, 0o755)
        result = sandbox("true", {"PATH": self.path("bin") + ":" + os.environ["PATH"]})
        self.assertEqual(result.code, SKIPPED)
        self.assertIn("SKIPPED", result.err)
        self.assertIn("Operation not permitted", result.err)

    def test_use_outside_a_sandbox_is_refused(self):
        self.assertEqual(execute([VCLUSTER, "up", "2"]).code, 2)
        self.assertEqual(execute([VCLUSTER, "--help"]).code, 0)


if __name__ == "__main__":
    trial = sandbox("true")
    if trial.code == SKIPPED:
        print(trial.err, file=sys.stderr)
        sys.exit(SKIPPED)
    suite.main()
