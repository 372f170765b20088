"""A unit run as one process that writes a line of JSON for each test as it ends.

The lines go to the file named by RESPOOL_REPORT: `id`, `passed` and `why`. A process that is killed, since
it is not at its end in time, has told what it knows.

Not here: who writes the lines (`pytest_report.py`, `mocha_report.js`).
"""

import json
import os
import subprocess
import tempfile

from outcome import Outcomes

HERE = os.path.dirname(os.path.abspath(__file__))
UNIT_S = 300


def run(argv, folder, env, prefix=""):
    """`prefix` is cut from the tests' names. What the process says is shown if it reports no test at all."""
    with tempfile.TemporaryDirectory(prefix="respool-suites-") as temporary:
        report = os.path.join(temporary, "report")
        late, said = False, ""
        try:
            said = subprocess.run(
                argv, check=False, cwd=folder, env=dict(os.environ, **env, RESPOOL_REPORT=report),
                stdin=subprocess.DEVNULL, timeout=UNIT_S,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            ).stdout  # fmt: skip
        except subprocess.TimeoutExpired:
            late = True
        outcomes = read(report, prefix)
    if late:
        outcomes.broken_off = f"not at its end within {UNIT_S} s"
    elif not outcomes.of:
        outcomes.broken_off = said.strip()[-300:]
    return outcomes


def read(report, prefix):
    outcomes = Outcomes()
    if os.path.exists(report):
        with open(report, encoding="utf-8") as file:
            for line in map(json.loads, file):
                outcomes.add(line["id"].removeprefix(prefix), line["passed"], line["why"])
    return outcomes
