"""The Tcl suite that Redis and Valkey bring along, against a server that runs already.

It is run unit by unit: one that hangs or breaks off does not take the others with it. `--durable`
lets a unit go on after a test that raised an error.

Not here: which server (`stand`), which tests are left out (`outcome`).
"""

import os
import re
import signal
import subprocess
import tempfile

from outcome import Outcomes
from stand import servers

# A unit that shows no progress for so long hangs. The longest tests take a few seconds.
STALL_S = 60
UNIT_S = 900
# Each hanging test costs another run of its unit.
HANGS_MAX = 12
# As the suite is run by its own project: no slow tests (they repeat others with more data).
# The digest of all data is asked of DEBUG; without it the tests compare what commands answer.
WORDS = ["--durable", "--dont-clean", "--tags", "-slow", "--ignore-digest", "--timeout", str(STALL_S)]
# What tests of the suite expect to be allowed.
SERVER = ["--enable-protected-configs", "yes", "--enable-debug-command", "yes"]

OK = re.compile(r"^\[ok\]: (.*) \(\d+ ms\)$")
FAILED = re.compile(r"^\[err\]: (.*) in tests/\S+\.tcl$")
OUTSIDE = re.compile(r"^\[(?:err|exception)\]: (.*)$")
HANGING = re.compile(r"^\S+ => \(IN PROGRESS\) (.*)$")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class RedisTcl:
    # Directly and through respool at the same time: the tests mostly wait.
    at_once = True

    def __init__(self, folder, cluster):
        self.folder, self.cluster = folder, cluster
        self.server_words = SERVER

    def units(self):
        """As `tests/test_helper.tcl` lists them, but those that start servers of their own."""
        with open(os.path.join(self.folder, "tests/test_helper.tcl"), encoding="utf-8") as file:
            listed = re.search(r"set ::all_tests \{(.*?)\}", file.read(), re.DOTALL)
        return [unit for unit in listed[1].split() if not unit.startswith("integration/")]

    def run(self, unit, stand, left_out):
        """Runs a unit; once more without the test it hung at, for as long as it hangs.

        `stand`: starts servers and yields the port. Fresh ones each time: what hung may have left them paused.
        """
        hung = []
        while True:
            with stand() as port:
                outcomes, hanging = self.run_once(unit, port, [*left_out, *hung])
            if not hanging or len(hung) == HANGS_MAX:
                break
            hung.append(hanging)
        for name in hung:
            outcomes.add(name, False, f"hangs (no progress for {STALL_S} s)")
        return outcomes

    def run_once(self, unit, port, skipped):
        words = [*WORDS, "--host", "127.0.0.1", "--port", str(port), "--single", unit]
        # It takes the first port from 32 before this one on for itself. Two runs must not agree on one.
        words += ["--baseport", str(servers.free_port() + 32)]
        if self.cluster:
            words.append("--cluster-mode")
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as skip:
            skip.write("\n".join(skipped) + "\n")
            skip.flush()
            argv = ["tclsh", "tests/test_helper.tcl", *words, "--skipfile", skip.name]
            said, late = output_of(argv, self.folder)
        return read(said, late)


def output_of(argv, folder):
    """(what it printed, whether it had to be ended)."""
    with tempfile.TemporaryFile() as log:
        # In a group of its own, since it starts the process that does the tests.
        run = subprocess.Popen(
            argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            run.wait(timeout=UNIT_S)
            late = False
        except subprocess.TimeoutExpired:
            late = True
        finally:
            # Also after its end: what it started may hang at a connection.
            try:
                os.killpg(run.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            run.wait()
        log.seek(0)
        return log.read().decode(errors="replace"), late


def read(said, late):
    """(outcomes, the name of the test that hangs or None)."""
    outcomes, hanging, failed = Outcomes(), None, None
    for line in COLOUR.sub("", said).splitlines():
        if failed:
            # The line after the name says what was expected.
            outcomes.add(failed, False, line)
            failed = None
        elif match := OK.match(line):
            outcomes.add(match[1], True)
        elif match := FAILED.match(line):
            failed = match[1]
        elif match := OUTSIDE.match(line):
            # Between two tests; the rest of the block is not run.
            outcomes.broken_off = match[1]
        elif match := HANGING.match(line):
            hanging = match[1]
    if "The End" not in said and not outcomes.broken_off:
        outcomes.broken_off = f"ended early: {said.strip()[-200:]}"
    if late:
        outcomes.broken_off = f"not at its end within {UNIT_S} s"
    return outcomes, hanging
