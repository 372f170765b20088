"""The page that tells which application went through which fault, directly and through respool.

Not here: what is counted, and when an outcome is good enough (`run`).
"""

from stand import DOWN_S, SENTINEL_DOWN_MS

from table import markdown  # isort: skip - of tests/clients, as `stand` says

HEAD = """\
<!-- Generated from a run by `make test-survival TABLE=1`. Do not edit. -->
# Applications while servers fail

Each application has a worker and a producer with its default settings, and the producer queues {tasks} tasks, one each
{pace_ms} ms. The fault comes when {before} of them are done and the worker waits for the next one. An attempt to queue that
raises an error is made again. Given is how many tasks were done, how many of them twice, and whether the worker's process
ended.

Client libraries have a program of ours: a list of tasks that its worker takes with a blocking command. It goes on after lost
connections and time-outs, and ends at an error reply, as frameworks do.

Through respool, an application must come out as well as directly; where it knows no such servers itself, all tasks must be done.
`hold` is respool with `timeouts.failover_hold_ms = {hold_ms}`. Behind it: {servers}.
"""

FAULTS = {
    "restart": (
        "A server restarts",
        f"The server with an append-only file is shut down, stays away for {DOWN_S} s and comes back.",
    ),
    "sentinel": (
        "A sentinel promotes",
        "The primary is killed (kill -9); the sentinel, which notices after "
        f"{SENTINEL_DOWN_MS} ms, promotes the replica. Directly, the application uses its own support for sentinels.",
    ),
    "cluster": (
        "A node of a cluster hands over",
        "The replica of the node that has the application's keys takes over (`CLUSTER FAILOVER`). All keys have one hash "
        "tag, given as prefix or name. Workers that wait in a blocking command are told `-UNBLOCKED`, which is an "
        "error reply: libraries give it to the application. Through respool they go on waiting at the new primary.",
    ),
}


def page(applications, outcomes, ways, figures):
    """The page in Markdown. `figures` are those that its head names."""
    parts = [HEAD.format(**figures)]
    for fault, (title, text) in FAULTS.items():
        columns = [way for way in ways if any(key[1:] == (fault, way) for key in outcomes)]
        rows = [row(one, fault, columns, outcomes) for one in applications]
        rows = [each for each in rows if each]
        if not rows:
            continue
        parts.append(f"\n## {title}\n\n{text}\n\n" + markdown(["application", *columns], rows))
        parts.append(reasons(applications, fault))
    return "".join(parts)


def row(application, fault, columns, outcomes):
    """The cells of a line; none if the application is not tried with the fault at all."""
    found = [outcomes.get((application.name, fault, way)) for way in columns]
    versions = [outcome.version for outcome in found if outcome]
    if not versions:
        return []
    title = f"{application.title} {versions[0]}".strip()
    return [title, *(str(outcome) if outcome else "–" for outcome in found)]


def reasons(applications, fault):
    """Why a cell, or a whole line, is missing."""
    lines = []
    for one in applications:
        if why := one.none.get(fault):
            lines.append(f"- {one.title} is not tried: {why}.\n")
        elif why := one.undirected.get(fault):
            lines.append(f"- {one.title} is not tried directly: {why}.\n")
    return "\n" + "".join(lines) if lines else ""
