"""The suite of ioredis, against a server that runs already.

It is run file by file, and its many small files about one command or about clusters in one piece each. Tests that
talk to a server of their own making (those about clusters and sentinels) pass anywhere.

Not here: which server (`stand`), which tests are left out (`outcome`), how a process tells of its tests (`reported`).
"""

import glob
import os
import re

import reported

MOCHA = "node_modules/.bin/mocha"
# Its own two seconds are too few on a machine that does other things as well.
TEST_MS = 60_000


class IoRedis:
    cluster = False
    # Its tests listen on ports that are written there.
    at_once = False
    server_words = ("--enable-debug-command", "yes")

    def __init__(self, folder):
        self.folder = folder

    def units(self):
        return sorted(glob.glob("test/functional/*", root_dir=self.folder))

    def run(self, unit, stand, left_out):
        """`stand`: starts a server and yields its port."""
        tests = unit if unit.endswith(".ts") else f"{unit}/**/*.ts"
        # As in its package.json. It asks for the port 6379 in many places: `ioredis_port.js` leads these to ours.
        words = ["--require", os.path.join(reported.HERE, "ioredis_port.js")]
        words += ["--reporter", os.path.join(reported.HERE, "mocha_report.js")]
        words += ["--timeout", str(TEST_MS), "--exit"]
        if left_out:
            words += ["--grep", f"^(?:{'|'.join(map(re.escape, left_out))})$", "--invert"]
        env = {"NODE_ENV": "test", "TS_NODE_TRANSPILE_ONLY": "true"}
        with stand() as port:
            env["RESPOOL_PORT"] = str(port)
            return reported.run([MOCHA, *words, "test/helpers/*.ts", tests], self.folder, env)
