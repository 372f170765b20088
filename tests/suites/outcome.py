"""What became of the tests of one unit, and the tests that are left out.

A unit is what a suite runs in one piece: a file of the Tcl suite, a module of pytest's. Suites
repeat names (in loops, say), so a test is known by its name and by which one of that name it is.

Not here: how a suite is run (`redis_tcl`, `redis_py`), what is made of two results (`compare`).
"""

import collections
import os

HERE = os.path.dirname(os.path.abspath(__file__))
# Between a test's name and the reason it is left out for.
DASH = " — "
# In place of a name: the whole unit is left out.
WHOLE_UNIT = "*"


class Outcomes:
    """Of one unit: whether each test passed, and if not, why, in the order in which they ran."""

    def __init__(self):
        self.of = {}
        self.seen = collections.Counter()
        # Why the unit did not come to its end, if it did not. The tests after that are not in `of`.
        self.broken_off = None

    def add(self, name, passed, why=""):
        number = self.seen[name]
        self.seen[name] += 1
        self.of[name, number] = (passed, why)

    def passed(self):
        return [test for test, (passed, _) in self.of.items() if passed]

    def why_not(self, test):
        """Why a test did not pass here."""
        if test in self.of:
            return self.of[test][1]
        return f"was not come to: {self.broken_off}" if self.broken_off else "was not run"


class LeftOut:
    """The tests of one suite that are not run through respool, each with its reason."""

    def __init__(self, suite):
        self.path = os.path.join(HERE, "left_out", f"{suite}.txt")
        self.reasons = {}
        with open(self.path, encoding="utf-8") as file:
            for number, line in enumerate(map(str.strip, file), start=1):
                if line and not line.startswith("#"):
                    unit, name, reason = self.parse(line, number)
                    self.reasons[unit, name] = reason

    def parse(self, line, number):
        unit, colon, rest = line.partition(": ")
        name, dash, reason = rest.rpartition(DASH)
        if not (colon and dash and name and reason):
            raise SystemExit(f"{self.path}:{number}: not `unit: test{DASH}reason`: {line}")
        return unit, name, reason

    def names(self, unit):
        return [name for of, name in self.reasons if of == unit]

    def whole(self, unit):
        return (unit, WHOLE_UNIT) in self.reasons

    def has(self, unit, name):
        """Of a test with parameters, `name[parameters]`, the list may hold the name alone: then all are left out."""
        names = {name, name.partition("[")[0]}
        return self.whole(unit) or any((unit, name) in self.reasons for name in names)
