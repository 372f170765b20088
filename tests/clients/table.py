"""The page that tells which library was tried with what, on which kind of pool, and what came of it."""

import ast
import itertools
import os

PATTERN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python", "pools.py")

HEAD = """\
<!-- Generated from a run by `make test-clients TABLE=1`. Do not edit. -->
# Client libraries

Each library does the same on every kind of pool, with its default settings. It knows one address, respool's. {servers}

✓ works, ✗ fails, – the library has no means for it (the reasons stand below).

{checks}"""

CLUSTER = """
## Libraries in cluster mode

Here the library takes respool for a cluster, since respool
[shows itself as one](../guides/cluster.md#how-respool-shows-itself). How many checks passed, of how many: one respool in
front of a cluster and of a single server, three respools as three nodes (one of which dies and comes back), two behind a
balancer (one dies), and without the facade (the library must say that this is no cluster).
"""

LEFT_OUT = """
## Not here

StackExchange.Redis was not tried: it comes from NuGet and its runtime from Microsoft's own package list, and a run installs
from Debian, PyPI, npm, Maven Central, crates.io and the Go proxy only.
"""

TITLES = {
    "standalone": "One server",
    "sentinel": "A server that sentinels know",
    "cluster": "A cluster",
}
SIGNS = {"ok": "✓", "FAIL": "✗", "none": "–"}


def page(results, servers):
    """The page in Markdown; `servers` says what stood behind respool."""
    pools = [one for one in results if one.client.mode == "pools" and not one.obstacle]
    parts = [HEAD.format(servers=servers, checks=explained())]
    for group, title in TITLES.items():
        columns = checks_of(pools, group)
        rows = [
            [name(one), *(sign(one, f"{group}:{column}") for column in columns)] for one in pools
        ]
        parts.append(f"\n## {title}\n\n" + markdown(["library", *columns], rows))
    parts.append(reasons(pools))
    parts.append(CLUSTER + "\n" + cluster_mode(results))
    parts.append(LEFT_OUT)
    return "".join(parts)


def explained():
    """The list of the checks that stands in the programs' pattern."""
    with open(PATTERN, encoding="utf-8") as file:
        lines = ast.get_docstring(ast.parse(file.read())).splitlines()
    rows = (line.split(maxsplit=1) for line in lines if line.startswith("    "))
    return markdown(["check", "what is done"], [[f"`{name}`", text] for name, text in rows])


def checks_of(results, group):
    """The names of this group's checks, in the programs' order, each once."""
    names = itertools.chain.from_iterable(one.checks for one in results)
    found = (check.partition(":") for check in names)
    return list(dict.fromkeys(check for of, _, check in found if of == group))


def name(result):
    return f"{result.client.title} {result.version}".strip()


def sign(result, check):
    # A check that should have come and did not is none that works.
    return SIGNS[result.checks.get(check, "FAIL")]


def reasons(pools):
    lines = {
        f"- {name(one)}, {check.partition(':')[2]}: {why}\n": None
        for one in pools
        for check, why in one.lacks.items()
    }
    return "\n" + "".join(lines) if lines else ""


def cluster_mode(results):
    groups = ["cluster", "standalone", "several", "balanced", "off"]
    rows = []
    for one in results:
        if one.client.mode == "cluster" and not one.obstacle:
            rows.append([name(one), *(passed(one, group) for group in groups)])
    return markdown(["library", *groups], rows)


def passed(result, group):
    of = [what for check, what in result.checks.items() if check.startswith(f"{group}:")]
    return f"{of.count('ok')} of {len(of)}"


def markdown(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
