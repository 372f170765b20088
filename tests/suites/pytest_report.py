"""A plugin of pytest: writes a line of JSON for each test that ran to the file RESPOOL_REPORT.

Lines come as tests end, so that a run that is killed has told what it knows. A test that is skipped
is not reported: it says nothing about the server.
"""

import json
import os

FAILED = {}
PASSED = set()


def pytest_runtest_logreport(report):
    # A test passes when its set-up, itself and its clean-up do.
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        FAILED[report.nodeid] = crash.message if crash else str(report.longrepr).strip()[-300:]
    elif report.passed and report.when == "call":
        PASSED.add(report.nodeid)
    if report.when == "teardown" and report.nodeid in FAILED.keys() | PASSED:
        why = FAILED.get(report.nodeid)
        line = {"id": report.nodeid, "passed": why is None, "why": why or ""}
        with open(os.environ["RESPOOL_REPORT"], "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
