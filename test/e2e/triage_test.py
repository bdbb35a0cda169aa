"""busbar triage against small real jobs on this machine, and against stand-ins for ssh, srun, scontrol and kubectl."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import suite

BUSBAR = os.path.join(suite.BUILD, f"busbar{suite.SUFFIX}")
LOOK = os.path.join(suite.BUILD, f"busbar-look{suite.SUFFIX}")

# A rank that waits for ever, with what must appear in no output.
RANK = """
import os, sys, time
print("step 1 password=planted_log_1", flush=True)
def all_reduce():
    time.sleep(300)
if "--worker" in sys.argv and os.fork() == 0:
    time.sleep(300)
while "--spin" in sys.argv:
    pass
all_reduce()
"""
PLANTED = ("planted_log_1", "planted_env_1", "planted_arg_1")

# Runs its last argument, or the words after "--", as a shell and as ssh, srun and kubectl would.
AGENT = """#!/bin/sh
case $1 in
  gone) echo "ssh: connect to host gone port 22: No route to host" >&2; exit 255 ;;
  nobody) echo "ssh: Could not resolve hostname nobody: Name or service not known" >&2; exit 255 ;;
  silent) exec sleep 300 ;;
esac
shift
exec sh -c "$*"
"""
# The first call works. Before the second one the job ends, or its host is gone.
ONCE = """#!/bin/sh
shift
if mkdir FOLDER/called; then exec sh -c "$*"; fi
WHAT
"""
SRUN = """#!/bin/sh
env | grep -q '^SLURM_PROCID=' && { echo "srun: the session's variables are there" >&2; exit 3; }
while [ $# -gt 0 ]; do
  case $1 in --nodelist=dead) echo "srun: error: Unable to create step for job 77: Node failure on dead" >&2; exit 1 ;;
    --*) shift ;; *) break ;; esac
done
exec "$@"
"""
SCONTROL = """#!/bin/sh
case $3 in
  77) echo "JobId=77 JobName=x
   JobState=RUNNING Reason=None EndTime=Unknown
   NodeList=here,dead" ;;
  76) echo "JobId=761 ArrayJobId=76 JobState=RUNNING"; echo "JobId=762 ArrayJobId=76 JobState=RUNNING" ;;
  78) echo "JobId=78 JobState=COMPLETED Reason=None EndTime=2026-11-26T01:02:03 NodeList=here" ;;
  *) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1 ;;
esac
"""
SINFO = """#!/bin/sh
echo "here allocated none"
echo "dead down* Not responding"
"""
KUBECTL = """#!/bin/sh
if [ "$1" = get ]; then
  case $* in *job=none*) echo '{"items": []}' ;;
  *) echo '{"items": [{"metadata": {"name": "llm-0"}, "status": {"phase": "Running"}},
    {"metadata": {"name": "llm-1"}, "status": {"phase": "Failed", "reason": "Evicted"}}]}' ;; esac
  exit
fi
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""


class Job:
    """Ranks of a job in Python; `job` makes its name, and its command, its own."""

    def __init__(self, folder, job, nranks=3, more=None, words=()):
        self.folder, self.processes = folder, []
        script = os.path.join(folder, f"{job}.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(RANK)
        for rank in range(nranks):
            env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(nranks), LOCAL_RANK=str(rank),
                       MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", TORCHELASTIC_RUN_ID=job,
                       WANDB_API_KEY="planted_env_1", **(more or {}))
            with open(os.path.join(folder, f"{job}.{rank}.log"), "w", encoding="utf-8") as log:
                self.processes.append(subprocess.Popen(
                    [sys.executable, script, "--token", "planted_arg_1", *words], env=env, stdout=log, stderr=log,
                    start_new_session=True))
        for rank in range(nranks):
            self.wait_for(rank)

    def wait_for(self, rank):
        name = next(name for name in os.listdir(self.folder) if name.endswith(f".{rank}.log"))
        for _ in range(300):
            if os.path.getsize(os.path.join(self.folder, name)) > 0:
                return
            time.sleep(0.1)
        raise AssertionError("a rank does not start")

    def end(self):
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


class TriageTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.name = f"job{os.getpid()}x{self._testMethodName[-12:]}"

    def job(self, **options):
        job = Job(self.folder, self.name, **options)
        self.addCleanup(job.end)
        return job

    def stand_ins(self, **scripts):
        """A folder for PATH with these programs."""
        for name, text in scripts.items():
            path = os.path.join(self.folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755)
        return {"PATH": self.folder + ":" + os.environ["PATH"]}

    def triage(self, *words, env=None):
        result = suite.execute([BUSBAR, "triage", "--apart", "1", *words], env=env)
        for planted in PLANTED:
            self.assertNotIn(planted, result.out + result.err)
        return result

    def evidence(self, *words, env=None):
        """What the command found, and its result."""
        file = os.path.join(self.folder, "evidence.json")
        result = self.triage("-J", file, *words, env=env)
        self.assertTrue(os.path.exists(file), str(result))
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
        os.remove(file)
        for planted in PLANTED:
            self.assertNotIn(planted, text)
        return json.loads(text)["looks"], result

    def test_ranks_worker_and_stopped(self):
        job = self.job(words=("--worker",))
        os.kill(job.processes[1].pid, signal.SIGSTOP)
        looks, result = self.evidence("--local", "--match", self.name)
        found = looks["hosts"][0]["processes"]
        ranks = {p["rank"]: p for p in found if p["role"] == "rank"}
        self.assertEqual(sorted(ranks), [0, 1, 2], str(result))
        self.assertEqual([ranks[i]["state"] for i in range(3)], ["S", "T", "S"])
        self.assertEqual([ranks[i]["state_before"] for i in range(3)], ["S", "T", "S"])
        self.assertEqual([ranks[i]["pid"] for i in range(3)], [p.pid for p in job.processes])
        self.assertEqual({p["role"] for p in found}, {"rank", "worker"})
        logs = looks["hosts"][0]["logs"]
        self.assertEqual(len(logs), 3)
        self.assertIn("step 1 password=***", logs[0]["text"])
        for process in job.processes:
            with open(f"/proc/{process.pid}/status", encoding="utf-8") as status:
                self.assertIn("TracerPid:\t0\n", status.read())

    def test_merge(self):
        self.job()
        file = os.path.join(self.folder, "here.json")
        self.triage("--local", "--match", self.name, "-J", file)
        with open(file, encoding="utf-8") as opened:
            document = json.load(opened)
        again = suite.execute([BUSBAR, "diagnose", "--json", file])
        self.assertEqual(json.loads(again.out)["verdict"], document["verdict"], str(again))
        looks, _ = self.evidence("--merge", file)
        self.assertEqual(len([p for p in looks["hosts"][0]["processes"] if p["role"] == "rank"]), 3)

    def test_much_evidence_fits_into_the_memory_of_a_look(self):
        prefix = os.path.join(self.folder, "fr_")
        self.job(nranks=16, more={"TORCH_FR_DUMP_TEMP_FILE": prefix})
        for rank in range(16):
            with open(os.path.join(self.folder, f"{self.name}.{rank}.log"), "a", encoding="utf-8") as log:
                log.write(("x" * 99 + "\n") * 5000)
            with open(prefix + str(rank), "wb") as dump:
                dump.write(os.urandom(3000000))
        looks, _ = self.evidence("--local", "--match", self.name)
        self.assertGreater(sum(len(log["text"]) for log in looks["hosts"][0]["logs"]), 3 << 20)
        self.assertIn(4000000, [len(dump["base64"]) for dump in looks["hosts"][0]["dumps"]])

    def test_agent_and_silent_hosts(self):
        self.job()
        agent = self.stand_ins(agent=AGENT)
        before = set(os.listdir("/dev/shm"))
        looks, result = self.evidence("--hosts", "here,gone", "--agent", os.path.join(self.folder, "agent"), "--match",
                                      self.name, env=agent)
        self.assertEqual([p["rank"] for p in looks["hosts"][0]["processes"] if p["role"] == "rank"], [0, 1, 2])
        self.assertEqual([(s["host"], s["kind"]) for s in looks["silent"]], [("gone", "unreachable")], str(result))
        self.assertEqual([n for n in set(os.listdir("/dev/shm")) - before if "busbar-look" in n], [])

    def test_slurm(self):
        self.job(more={"SLURM_JOB_ID": "77"})
        env = self.stand_ins(srun=SRUN, scontrol=SCONTROL, sinfo=SINFO, ssh=AGENT.replace("$1", "gone"))
        env["SLURM_PROCID"] = "0"
        looks, result = self.evidence("--slurm", "77", env=env)
        self.assertEqual(len([p for p in looks["hosts"][0]["processes"] if p["role"] == "rank"]), 3, str(result))
        self.assertEqual(looks["expected_hosts"], 2)
        self.assertEqual([s["host"] for s in looks["silent"]], ["dead"])
        self.assertIn("dead: down* (Not responding)", looks["scheduler"])
        self.assertIn("the scheduler: dead: down* (Not responding)", result.out)
        array = self.triage("--slurm", "76", env=env)
        self.assertEqual(array.code, 255)
        self.assertIn("761, 762; give one of them", array.err)
        ended = self.triage("--slurm", "78", env=env)
        self.assertEqual(ended.code, 5)
        self.assertIn("COMPLETED", ended.err)
        self.assertEqual(self.triage("--slurm", "79", env=env).code, 5)

    def test_kubernetes(self):
        self.job()
        env = self.stand_ins(kubectl=KUBECTL)
        looks, result = self.evidence("--kube", "-n", "ml", "-l", "job=llm", "--match", self.name, env=env)
        self.assertEqual(len([p for p in looks["hosts"][0]["processes"] if p["role"] == "rank"]), 3, str(result))
        self.assertEqual([s["host"] for s in looks["silent"]], ["llm-1"])
        self.assertEqual(self.triage("--kube", "-n", "ml", "-l", "job=none", env=env).code, 255)

    @unittest.skipUnless(os.geteuid() == 0, "only root can be another user, too")
    def test_a_name_that_another_user_holds_keeps_no_triage_away(self):
        self.job(nranks=1)
        hold = ("import os, socket, time; held = socket.socket(socket.AF_UNIX); os.setuid(65534); "
                "held.bind('\\0busbar-look'); held.listen(); print(flush=True); time.sleep(99)")
        with subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE) as holder:
            holder.stdout.readline()
            try:
                looks, _ = self.evidence("--local", "--match", self.name)
            finally:
                holder.kill()
        self.assertEqual(looks["silent"], [])
        self.assertEqual(len(looks["hosts"][0]["processes"]), 1)

    def test_second_look_has_its_time(self):
        self.job(nranks=1, words=("--spin",))
        looks, _ = self.evidence("--local", "--match", self.name, "--apart", "6", "--limit", "5")
        late = [c["name"] for c in looks["hosts"][0]["collectors"] if c["outcome"] == "timed_out"]
        self.assertEqual(late, [])
        rank = looks["hosts"][0]["processes"][0]
        self.assertLessEqual(rank["cpu_s"], 1.02 * looks["hosts"][0]["look_s"])

    @suite.with_py_spy
    def test_watch_tells_an_end_from_a_host_that_is_gone(self):
        for what, code, said in (("echo 'ssh: No route to host' >&2; exit 255", 5, "no host could be looked at"),
                                 ("kill -9 PIDS; exec sh -c \"$*\"", 0, "the job has ended")):
            job = self.job(nranks=2, words=("--spin",))
            pids = " ".join(str(process.pid) for process in job.processes)
            script = ONCE.replace("WHAT", what).replace("FOLDER", self.folder).replace("PIDS", pids)
            env = self.stand_ins(agent=script)
            result = self.triage("--hosts", "here", "--agent", os.path.join(self.folder, "agent"), "--match",
                                 self.name, "--watch", "1s", env=env)
            self.assertEqual(result.code, code, str(result))
            self.assertIn(said, result.err, str(result))
            os.rmdir(os.path.join(self.folder, "called"))
            job.end()

    def test_two_jobs_are_refused(self):
        self.job(nranks=1)
        other = Job(self.folder, self.name + "b", nranks=1)
        self.addCleanup(other.end)
        both = self.triage("--local", "--match", self.name)
        self.assertEqual(both.code, 255)
        self.assertIn(f"run {self.name}b", both.err)
        looks, _ = self.evidence("--local", "--match", self.name, "--job", self.name + "b")
        self.assertEqual(len(looks["hosts"][0]["processes"]), 1)

    def test_bad_input(self):
        env = self.stand_ins(agent=AGENT)
        agent = ("--agent", os.path.join(self.folder, "agent"))
        for words, code, said in (
                (("--local", "--match", "no-such-job-anywhere"), 5, "no rank"),
                (("--hosts", "nobody", *agent), 255, "no such host"),
                (("--hosts", "node[1-", *agent), 255, "bracket"),
                (("--slurm", "seven"), 255, "not the number of a job"),
                ((), 255, "which job"), (("--local", "--kube"), 255, "which job"),
                (("--merge", os.path.join(self.folder, "agent")), 255, "JSON"),
                (("--local", "--stacks", "all"), 255, "native")):
            result = self.triage(*words, env=env)
            self.assertEqual(result.code, code, f"{words} {result}")
            self.assertIn(said, result.err, f"{words} {result}")

    def test_looker_needs_nothing_but_libc(self):
        with open(LOOK, "rb") as file:
            self.assertNotIn(b"/lib64/ld-linux", file.read())

    def test_help_says_what_costs(self):
        result = self.triage("--help")
        self.assertEqual(result.code, 0)
        text = " ".join(result.out.split())
        self.assertIn("STOPS each rank", text)
        self.assertIn("WRITES a file", text)


if __name__ == "__main__":
    suite.main()
