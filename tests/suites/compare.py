"""Two results of a unit side by side: what passes directly must pass through respool.

Not here: how results come about (`redis_tcl`, `redis_py`).
"""

import collections

Unit = collections.namedtuple("Unit", "name direct through left_out differ broken_off")


def compare(name, direct, through, left_out):
    """`differ`: (test, why) of each that passes directly only, without being left out."""
    passed, left, differ = direct.passed(), [], []
    both = 0
    for test in passed:
        if left_out.has(name, test[0]):
            left.append(test)
        elif through.of.get(test, (False,))[0]:
            both += 1
        else:
            differ.append((shown(test), through.why_not(test)))
    return Unit(name, len(passed), both, len(left), differ, direct.broken_off)


def shown(test):
    name, number = test
    return f"{name} [{number + 1}]" if number else name


def row(name, *columns):
    return f"{name:44}" + "".join(f"{column:>10}" for column in columns)


HEAD = row("unit", "direct", "through", "left out", "differ")


def unit_row(unit):
    return row(unit.name, unit.direct, unit.through, unit.left_out, len(unit.differ))


def report(units, stale):
    """Prints the sum and what differs; returns the process's exit status."""
    sums = [sum(column) for column in zip(*((u.direct, u.through, u.left_out) for u in units))]
    differ = [(unit.name, test, why) for unit in units for test, why in unit.differ]
    print(row("together", *sums, len(differ)))
    for unit in units:
        if unit.broken_off:
            print(f"even directly, {unit.name} breaks off: {unit.broken_off}")
    for unit, test in stale:
        print(f"left out, but passes nowhere: {unit}: {test}")
    if differ:
        print("\nThese pass directly and not through respool:")
    for unit, test, why in differ:
        print(f"{unit}: {test}\n    {why[:300]}")
    direct, through, left_out = sums
    print(
        f"suite: {direct} pass directly, of these {through} through respool, {left_out} left out, {len(differ)} differ"
    )
    return 1 if differ or not direct else 0
