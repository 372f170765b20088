"""What each client talks to: which servers, with which respool in front of them.

The groups that a client is given are explained in `python/pools.py` and `python/cluster.py`. A group
is started when the first client asks for it and kept for all, but for those that a client leaves broken.

Not here: how a process is started (`servers`), what the clients do (`run`).
"""

import contextlib
import functools
import threading
from contextlib import ExitStack

import servers


class Targets:
    """Starts what a client shall talk to when the first client asks for it, and keeps it.

    Addresses are "host:port". `stack` ends everything.
    """

    def __init__(self, args, folder, stack):
        self.args, self.folder, self.stack = args, folder, stack
        self.keep = stack.enter_context
        # Programs of several modes run at the same time and ask for the same servers.
        self.lock = threading.Lock()

    def respool(self, upstream, *words):
        return self.keep(servers.respool(self.args.respool, upstream, *words)).port

    @functools.cached_property
    def server(self):
        return self.keep(servers.redis_server(self.folder)).port

    @functools.cached_property
    def nodes(self):
        return [node.port for node in self.keep(servers.redis_cluster(self.folder))]

    @property
    def server_url(self):
        return url_of(self.server)

    @property
    def cluster_url(self):
        return url_of(*self.nodes)

    @functools.cached_property
    def plain(self):
        """(host, port) for the clients that know no clusters."""
        if self.args.target:
            host, _, port = self.args.target.rpartition(":")
            return [host or "127.0.0.1", port]
        # Not the server of the clients in cluster mode, which run at the same time and count keys.
        port = self.keep(servers.redis_server(self.folder)).port
        if not self.args.direct:
            port = self.respool(url_of(port))
        return ["127.0.0.1", str(port)]

    @functools.cached_property
    def shared(self):
        """The groups (name, ports) that all clients in cluster mode share."""
        if self.args.direct:
            # At "real" the programs leave out what only respool does, such as serving all slots.
            return [("real", self.nodes), ("off", [self.server])]
        facade = ["--facade-cluster", "true"]
        return [
            ("cluster", [self.respool(self.cluster_url, *facade)]),
            ("standalone", [self.respool(self.server_url, *facade)]),
            ("off", [self.respool(self.server_url), self.respool(self.cluster_url)]),
        ]

    @contextlib.contextmanager
    def own(self):
        """Yields (groups, respools by name) that one client has for itself, since it may kill them.

        `several`: three respools in front of the cluster that announce each other.
        `balanced`: two that announce a balancer, which is in front of both.
        """
        facade = ["--facade-cluster", "true"]
        each = [servers.free_port() for _ in range(3)]
        balancer = servers.free_port()
        behind = [servers.free_port() for _ in range(2)]
        with ExitStack() as stack:

            def start(ports, announced):
                words = [*facade]
                for port in announced:
                    words += ["--facade-announce", f"127.0.0.1:{port}"]
                for port in ports:
                    yield stack.enter_context(
                        servers.respool(
                            self.args.respool, self.cluster_url, *words, port=port, workers=1
                        )
                    )

            respools = {str(i): respool for i, respool in enumerate(start(each, each))}
            respools["balanced"], _ = start(behind, [balancer])
            stack.enter_context(servers.balancer(balancer, behind))
            yield [("several", each), ("balanced", [balancer])], respools

    @functools.cached_property
    def pools(self):
        """(ports by group, what may be restarted by its name) for the programs named pools.

        They restart what serves them, so its servers are no other program's, and they take turns.
        """
        server = self.keep(servers.redis_server(self.folder))
        if self.args.direct:
            # The same connections break when there is no respool to restart.
            return [("standalone", [server.port])], {
                "server standalone": server,
                "respool standalone": server,
            }
        known = self.keep(servers.redis_server(self.folder))
        sentinel = self.keep(servers.redis_sentinel(self.folder, known, "pool"))
        nodes = self.keep(servers.redis_cluster(self.folder))
        ports, restartable = [], {}
        for group, server, url in (
            ("standalone", server, url_of(server.port)),
            ("sentinel", known, f"redis-sentinel://127.0.0.1:{sentinel.port}/pool"),
            ("cluster", nodes[0], url_of(*(node.port for node in nodes))),
        ):
            respool = self.keep(servers.respool(self.args.respool, url))
            ports.append((group, [respool.port]))
            restartable |= {f"server {group}": server, f"respool {group}": respool}
        return ports, restartable

    @contextlib.contextmanager
    def of(self, client):
        """Yields (arguments of the client's program, the processes that it may end by their names)."""
        with ExitStack() as stack:
            with self.lock:
                words, processes = self.start(client.mode, stack)
            yield words, processes

    def start(self, mode, stack):
        """What `of` yields; `stack` ends what is this client's alone."""
        if mode == "basic":
            return self.plain, {}
        if mode == "pools":
            groups, processes = self.pools
            return arguments(groups), processes
        own, processes = ([], {}) if self.args.direct else stack.enter_context(self.own())
        return arguments([*self.shared, *own]), processes


def url_of(*ports):
    """Of one server, or of a cluster of several."""
    kind = "redis" if len(ports) == 1 else "redis-cluster"
    return f"{kind}://" + ",".join(f"127.0.0.1:{port}" for port in ports)


def arguments(groups):
    return [
        f"{name}=" + ",".join(f"127.0.0.1:{port}" for port in ports) for name, ports in groups
    ]
