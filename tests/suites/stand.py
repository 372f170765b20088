"""The server of one unit: alone or a cluster, reached directly or through respool.

Each unit gets fresh ones, so that no unit sees what another one left.

Not here: how a process is started (`tests/clients/servers.py`, which the client tests share).
"""

import contextlib
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "clients"))

import servers  # noqa: E402 - it lies where the line above says


@contextlib.contextmanager
def servers_at(words, nodes):
    """Yields (port, what respool calls them). `nodes`: 0 is no cluster."""
    with tempfile.TemporaryDirectory(prefix="respool-suites-") as folder:
        if not nodes:
            with servers.redis_server(folder, *words) as server:
                yield server.port, f"redis://127.0.0.1:{server.port}"
            return
        with servers.redis_cluster(folder, nodes, *words) as members:
            ports = [member.port for member in members]
            yield ports[0], "redis-cluster://" + ",".join(f"127.0.0.1:{port}" for port in ports)


@contextlib.contextmanager
def direct(words, nodes):
    """Yields the port of such a server."""
    with servers_at(words, nodes) as (port, _):
        yield port


@contextlib.contextmanager
def through(binary, words, nodes):
    """Yields the port of a respool in front of such servers.

    It has one worker: tests send over several connections without waiting for replies, and rely on the order in which
    a single thread reads them. And it waits longer for a reply than by default: scripts of the Tcl suite run for ten
    seconds and more where the machine is slow, and nothing cuts them directly.
    """
    with servers_at(words, nodes) as (_, url):
        patient = ("--timeouts-request-ms", "60000")
        with servers.respool(binary, url, *patient, workers=1) as respool:
            yield respool.port
