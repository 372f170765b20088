"""The suite of redis-py, against a server that runs already.

It is run module by module. A test that needs what is not there (sentinels, say) fails or is skipped
directly as well, so it does not count.

Not here: which server (`stand`), which tests are left out (`outcome`), how a process tells of its tests (`reported`).
"""

import glob
import os

import reported

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
        words = ["-o", "addopts=", "-q", "-p", "pytest_report", "-p", "no:cacheprovider", f"--timeout={TEST_S}"]
        words += ["-m", " and ".join(f"not {mark}" for mark in MARKS)]
        for name in left_out:
            words += ["--deselect", f"{unit}::{name}"]
        env = {"PYTHONPATH": os.pathsep.join([self.folder, reported.HERE])}
        with stand() as port:
            words.append(f"--redis-url=redis://127.0.0.1:{port}/0")
            return reported.run([self.python, "-m", "pytest", *words, unit], self.folder, env, f"{unit}::")
