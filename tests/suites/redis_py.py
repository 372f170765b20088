"""The suite of redis-py, against a server that runs already.

It is run module by module. A test that needs what is not there (sentinels, say) fails or is skipped
directly as well, so it does not count.

Not here: which server (`stand`), which tests are left out (`outcome`).
"""

import glob
import json
import os
import subprocess
import tempfile

from outcome import Outcomes

HERE = os.path.dirname(os.path.abspath(__file__))
UNIT_S = 300
# Long enough for a test that waits for a lock, short enough for one that hangs.
TEST_S = 30
# As its own project runs it against a server that stands alone. TLS, modules and the rest are not at hand.
MARKS = ["onlycluster", "fixed_client", "redismod", "ssl", "cp_integration", "multidb_integration"]


class RedisPy:
    cluster = False
    # Some of its tests listen on a port that is written there.
    at_once = False
    server_words = ("--enable-debug-command", "yes")

    def __init__(self, folder, python):
        self.folder, self.python = folder, python

    def units(self):
        """Without those that start or ask for a whole managed service."""
        modules = glob.glob("tests/**/test_*.py", root_dir=self.folder, recursive=True)
        return sorted(name for name in modules if "test_scenario" not in name)

    def run(self, unit, stand, left_out):
        """`stand`: starts a server and yields its port."""
        with stand() as port, tempfile.TemporaryDirectory(prefix="respool-suites-") as folder:
            report = os.path.join(folder, "report")
            paths = os.pathsep.join([self.folder, HERE])
            env = dict(os.environ, PYTHONPATH=paths, RESPOOL_REPORT=report)
            words = ["-o", "addopts=", "-q", "-p", "pytest_report", "-p", "no:cacheprovider"]
            words += [f"--timeout={TEST_S}", f"--redis-url=redis://127.0.0.1:{port}/0"]
            words += ["-m", " and ".join(f"not {mark}" for mark in MARKS)]
            for name in left_out:
                words += ["--deselect", f"{unit}::{name}"]
            argv = [self.python, "-m", "pytest", *words, unit]
            late, said = False, ""
            try:
                said = subprocess.run(
                    argv, check=False, cwd=self.folder, env=env, stdin=subprocess.DEVNULL, timeout=UNIT_S,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                ).stdout  # fmt: skip
            except subprocess.TimeoutExpired:
                late = True
            outcomes = read(unit, report)
        if late:
            outcomes.broken_off = f"not at its end within {UNIT_S} s"
        elif not outcomes.of:
            outcomes.broken_off = said.strip()[-300:]
        return outcomes


def read(unit, report):
    outcomes = Outcomes()
    if os.path.exists(report):
        with open(report, encoding="utf-8") as file:
            for line in map(json.loads, file):
                outcomes.add(line["id"].removeprefix(f"{unit}::"), line["passed"], line["why"])
    return outcomes
