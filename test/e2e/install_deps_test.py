"""Catches: an install-deps that was killed and leaves the guard behind by which no package starts a daemon again, or that
removes one that somebody else made."""

import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import suite  # noqa: E402
from suite import Case  # noqa: E402

SCRIPT = os.path.join(suite.ROOT, "scripts", "install-deps.sh")
# Of the packages all is there but one of those that tests like to have.
FAKES = {
    "sudo": 'exec "$@"\n',
    "dpkg-query": 'shift 3; for p; do [ "$p" = slurm-wlm ] && [ ! -e "$ROOT/installed" ] || '
                  'echo "install ok installed $p"; done\n',
    "apt-get": 'case "$*" in *update*) exit 0 ;; esac\ncp "$ROOT/usr/sbin/policy-rc.d" "$ROOT/seen" 2>&1\n'
               'touch "$ROOT/under-way"\nwhile [ -e "$ROOT/wait" ]; do sleep 0.05; done\ntouch "$ROOT/installed"\n',
}


class InstallDeps(Case):
    def setUp(self):
        super().setUp()
        self.guard = self.path("usr/sbin/policy-rc.d")
        os.makedirs(os.path.dirname(self.guard))
        os.mkdir(self.path("bin"))
        for name, text in FAKES.items():
            self.write(f"bin/{name}", "#!/bin/sh\n" + text)
            os.chmod(self.path(f"bin/{name}"), 0o755)
        self.environment = dict(os.environ, ROOT=self.folder.name, PATH=self.path("bin") + ":" + os.environ["PATH"])

    def start(self):
        return subprocess.Popen(["bash", SCRIPT, "--test"], env=self.environment, start_new_session=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run_to_its_end(self):
        with self.start() as running:
            said = running.communicate(timeout=60)[0]
        self.assertEqual(running.returncode, 0, said)

    def start_and_wait(self):
        self.write("wait", "")
        running = self.start()
        limit = time.monotonic() + 60
        while not os.path.exists(self.path("under-way")):
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.02)
        return running

    def test_the_guard_is_there_while_packages_are_installed_and_no_longer(self):
        self.run_to_its_end()
        with open(self.path("seen"), encoding="utf-8") as file:
            self.assertTrue(file.read().endswith("\nexit 101\n"))
        self.assertFalse(os.path.exists(self.guard))

    def test_what_a_killed_run_left_goes_with_the_next(self):
        with self.start_and_wait() as running:
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate(timeout=60)
        self.assertTrue(os.path.exists(self.guard))
        self.write("installed", "")  # nothing to do for the next
        self.run_to_its_end()
        self.assertFalse(os.path.exists(self.guard))

    def test_an_interrupted_run_leaves_nothing(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number.name), self.start_and_wait() as running:
                os.killpg(running.pid, number)
                running.communicate(timeout=60)
                self.assertNotEqual(running.returncode, 0)
                self.assertFalse(os.path.exists(self.guard))
                os.remove(self.path("under-way"))

    def test_another_s_guard_stays(self):
        with self.start_and_wait() as other:
            with open(self.guard, encoding="utf-8") as file:
                text = file.read()
            self.write("installed", "")
            self.run_to_its_end()
            with open(self.guard, encoding="utf-8") as file:
                self.assertEqual(file.read(), text)
            os.remove(self.path("wait"))
            other.communicate(timeout=60)
        for text in ("#!/bin/sh\nexit 101\n", "mine"):
            self.write("usr/sbin/policy-rc.d", text)
            for name in ("installed", "under-way"):
                if os.path.exists(self.path(name)):
                    os.remove(self.path(name))
            self.run_to_its_end()
            with open(self.guard, encoding="utf-8") as file:
                self.assertEqual(file.read(), text)


if __name__ == "__main__":
    suite.main()
