"""The servers of one run, and the fault that they suffer.

A stand is a context manager. It yields the address that the application is given, and the fault, a
function that returns when servers are back or another node has taken over, and calls what it is given
when the servers that go are gone.

    restart    one server with an append-only file is shut down, stays away for `DOWN_S`, comes back
    sentinel   a primary is killed (kill -9); a sentinel promotes its replica
    cluster    the primary of the application's slot hands over to its replica (CLUSTER FAILOVER)

Not here: how a process is started (`tests/clients/servers.py`), what the application does (`run`).
"""

import contextlib
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "clients"))

import servers  # noqa: E402 - it lies where the line above says

DOWN_S = 3
SENTINEL_DOWN_MS = 1000
GROUP = "pool"
# All keys of an application on a cluster have this tag (each program gives it as name or prefix).
TAG = "{survival}"
DURABLE = ("--appendonly", "yes")
IS_UP = {"ready": (("PING",), "+PONG")}


@contextlib.contextmanager
def restart(folder):
    with servers.redis_server(folder, *DURABLE) as server:

        def fault(gone):
            server.end()
            gone()
            time.sleep(DOWN_S)
            server.start()

        yield f"redis://127.0.0.1:{server.port}", fault


@contextlib.contextmanager
def sentinel(folder):
    with contextlib.ExitStack() as stack:
        primary = stack.enter_context(servers.redis_server(folder, **IS_UP))
        replica = stack.enter_context(follower(folder, primary.port))
        watch = servers.redis_sentinel(folder, primary, GROUP, SENTINEL_DOWN_MS)
        port = stack.enter_context(watch).port
        servers.until(lambda: knows(port, replica.port), "a sentinel that knows the replica")

        def fault(gone):
            primary.kill()
            gone()
            servers.until(lambda: is_primary(replica.port), "a promotion by the sentinel")

        yield f"redis-sentinel://127.0.0.1:{port}/{GROUP}", fault


@contextlib.contextmanager
def cluster(folder):
    with contextlib.ExitStack() as stack:
        nodes = stack.enter_context(servers.redis_cluster(folder))
        slot = int(servers.ask(nodes[0].port, "CLUSTER", "KEYSLOT", TAG)[1:])
        owner = nodes[slot * len(nodes) // servers.SLOTS]
        words = ["--cluster-enabled", "yes", "--cluster-config-file", "replica.conf"]
        replica = stack.enter_context(servers.redis_server(folder, *words, **IS_UP))
        join(replica.port, owner.port, nodes)

        def fault(gone):
            # Nobody goes: what is queued meanwhile is part of it.
            gone()
            said = servers.ask(replica.port, "CLUSTER", "FAILOVER")
            if not said.startswith("+OK"):
                sys.exit(f"survival: CLUSTER FAILOVER: {said}")
            servers.until(lambda: is_primary(replica.port), "a failover of the cluster")

        yield "redis-cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in nodes), fault


STANDS = {"restart": restart, "sentinel": sentinel, "cluster": cluster}


@contextlib.contextmanager
def stood_up(fault):
    """Yields (address, fault) of a stand with files of its own."""
    with tempfile.TemporaryDirectory(prefix="respool-survival-") as folder:
        with STANDS[fault](folder) as stand:
            yield stand


def follower(folder, primary):
    """A replica that has caught up with the server on this port, in files of its own."""
    folder = tempfile.mkdtemp(dir=folder)
    words = ["--replicaof", "127.0.0.1", str(primary), "--repl-diskless-sync-delay", "0"]
    return servers.redis_server(folder, *words, ready=(("EXISTS", "x"), ":0"))


def join(port, primary, nodes):
    """Makes the server on this port a replica of a primary in the cluster of these nodes."""
    servers.ask(port, "CLUSTER", "MEET", "127.0.0.1", str(primary))
    whole = f"cluster_known_nodes:{len(nodes) + 1}"
    servers.until(lambda: whole in servers.ask(port, "CLUSTER", "INFO"), "a node that is known")
    name = servers.ask(primary, "CLUSTER", "MYID").split("\r\n")[1]
    servers.until(
        lambda: servers.ask(port, "CLUSTER", "REPLICATE", name).startswith("+OK"), "a replica"
    )
    servers.until(
        lambda: "master_link_status:up" in servers.ask(port, "INFO", "replication"), "its data"
    )
    # Whoever does not know it as a replica does not vote for it.
    own = servers.ask(port, "CLUSTER", "MYID").split("\r\n")[1]
    servers.until(
        lambda: all(f"slave {name}" in line_of(node.port, own) for node in nodes), "their knowledge"
    )


def line_of(port, name):
    """What a node says of another one, or of itself."""
    lines = servers.ask(port, "CLUSTER", "NODES").split("\n")
    return next((line for line in lines if line.startswith(name)), "")


def knows(port, replica):
    said = servers.ask(port, "SENTINEL", "REPLICAS", GROUP)
    return f"127.0.0.1:{replica}" in said and "master-link-status\r\n$2\r\nok" in said


def is_primary(port):
    return "role:master" in servers.ask(port, "INFO", "replication")
