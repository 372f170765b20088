"""What the clients are tried against: redis-server, alone, known to a sentinel or as a cluster;
respool and a balancer in front.

Each is a context manager that yields when it answers and is ended on the way out. All of
them listen on 127.0.0.1 at ports that were free a moment ago, and keep their files in a folder that
the caller removes.

Not here: which client is tried against which of them (`run`).
"""

import contextlib
import itertools
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time

SLOTS = 16384
# Less than a second on an idle machine, but scripts/test has it busy with other things.
START_TIMEOUT_S = 30
# Below what Linux gives to outgoing connections (32768 on), so that a client that tries to reach a
# dead respool cannot take its port, and so that a cluster node's second port (+ 10000) is as low.
# Cargo's tests, which run at the same time, leave both alone: crates/testkit/src/ports.rs.
PORTS = range(14_000, 16_000)
BUS = 10_000
# Processes divide the ports into blocks of this size. A process owns a block while it holds the first port of the block bound.
BLOCK = 50


class Ports:
    """Hands out the ports of the blocks that this process owns, each once until no free block is left."""

    def __init__(self, ports=PORTS):
        self.ports = ports
        self.lock = threading.Lock()
        self.marks = []
        self.owned = []
        self.given = 0

    def next(self):
        with self.lock:
            if self.given == len(self.owned) and not self.own_another():
                self.given = 0
            if not self.owned:
                sys.exit(f"tests: other processes have all ports from {self.ports.start} to {self.ports.stop}")
            self.given += 1
            return self.owned[self.given - 1]

    def own_another(self):
        """Takes a free block; returns False if there is none."""
        firsts = list(self.ports[::BLOCK])
        random.shuffle(firsts)
        for first in firsts:
            mark = socket.socket()
            try:
                mark.bind(("127.0.0.1", first))
            except OSError:
                mark.close()
                continue
            self.marks.append(mark)
            self.owned += range(first + 1, first + BLOCK)
            return True
        return False


OWN_PORTS = Ports()


def free_port():
    """Returns a free port with a free cluster bus port. No other test process hands out this port."""
    for _ in PORTS:
        port = OWN_PORTS.next()
        with contextlib.suppress(OSError):
            for each in (port, port + BUS):
                with socket.socket() as sock:
                    sock.bind(("127.0.0.1", each))
            return port
    sys.exit(f"tests: no free port from {PORTS.start} to {PORTS.stop}")


def ask(port, *words):
    """One reply to one command, as text; short replies and CLIENT LIST only."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
        parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in map(str.encode, words)]
        sock.sendall(b"*%d\r\n" % len(words) + b"".join(parts))
        got = sock.recv(1 << 16)
        if got.startswith(b"$") and not got.startswith(b"$-"):
            head, _, _ = got.partition(b"\r\n")
            while len(got) < len(head) + 2 + int(head[1:]) + 2:
                more = sock.recv(1 << 16)
                if not more:
                    raise OSError("the reply ended in the middle")
                got += more
        return got.decode(errors="replace")


def until(true, what):
    """Waits for a condition, for at most START_TIMEOUT_S."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while not true():
        if time.monotonic() > deadline:
            sys.exit(f"clients: not within {START_TIMEOUT_S} s: {what}")
        time.sleep(0.05)


class Server:
    """A process that answers on `port`. It can be killed and started again on the same port."""

    def __init__(self, argv, port, ready):
        self.argv, self.port, self.ready = argv, port, ready
        self.log = tempfile.TemporaryFile()
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            self.argv, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log
        )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.end()
                self.log.seek(0)
                tail = self.log.read().decode(errors="replace")[-2000:]
                sys.exit(f"clients: {self.argv[0]} did not answer on port {self.port}\n{tail}")
            time.sleep(0.05)

    def answers(self):
        try:
            return ask(self.port, *self.ready[0]).startswith(self.ready[1])
        except OSError:
            return False

    def kill(self):
        """As a crash: nothing is told to the clients but the end of their connections."""
        self.process.kill()
        self.process.wait()

    def restart(self):
        self.kill()
        self.start()

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill()


@contextlib.contextmanager
def started(argv, port, ready=(("EXISTS", "x"), ":0")):
    """A server that answers the command `ready[0]` with something that begins with `ready[1]`."""
    server = Server(argv, port, ready)
    try:
        yield server
    finally:
        server.end()
        server.log.close()


def redis_version():
    said = subprocess.run(["redis-server", "--version"], capture_output=True, text=True).stdout
    # Redis server v=7.0.15 sha=00000000:0 ...
    return "Redis " + said.partition("v=")[2].split()[0]


def redis_server(folder, *words, **how):
    port = free_port()
    argv = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
            "--appendonly", "no", "--dir", folder, *words]  # fmt: skip
    return started(argv, port, **how)


@contextlib.contextmanager
def redis_cluster(folder, nodes=3, *words):
    """A cluster of that many primaries with equal shares; yields them. `words` are more arguments."""
    # Its nodes' files are not those of another cluster.
    folder = tempfile.mkdtemp(dir=folder)
    with contextlib.ExitStack() as stack:
        servers = []
        for number in range(nodes):
            own = ["--cluster-enabled", "yes", "--cluster-config-file", f"node{number}.conf"]
            node = redis_server(folder, *own, *words, ready=(("PING",), "+PONG"))
            servers.append(stack.enter_context(node))
        for number, server in enumerate(servers):
            first, last = number * SLOTS // nodes, (number + 1) * SLOTS // nodes - 1
            for command in (
                # One by one: servers before 7.0 know no ADDSLOTSRANGE.
                ["CLUSTER", "ADDSLOTS", *map(str, range(first, last + 1))],
                ["CLUSTER", "SET-CONFIG-EPOCH", str(number + 1)],
                ["CLUSTER", "MEET", "127.0.0.1", str(servers[0].port)],
            ):
                said = ask(server.port, *command)
                if not said.startswith("+OK"):
                    sys.exit(f"clients: {' '.join(command[:2])}: {said}")
        whole = ("cluster_state:ok", f"cluster_known_nodes:{nodes}", f"cluster_size:{nodes}")
        for server in servers:
            until(
                lambda: all(line in ask(server.port, "CLUSTER", "INFO") for line in whole),
                "a whole cluster",
            )
        yield servers


@contextlib.contextmanager
def redis_sentinel(folder, server, name, down_after_ms=60_000):
    """A sentinel that alone knows this server by this name; yields it.

    By default it is patient: a server that is killed and started again at once stays the primary.
    """
    port = free_port()
    config = os.path.join(folder, f"sentinel-{port}.conf")
    with open(config, "w", encoding="ascii") as file:
        file.write(
            f"port {port}\nbind 127.0.0.1\nsentinel monitor {name} 127.0.0.1 {server.port} 1\n"
            f"sentinel down-after-milliseconds {name} {down_after_ms}\n"
            # It tries again after twice this, where it found no good replica on a busy machine.
            f"sentinel failover-timeout {name} 2000\n"
        )
    argv = ["redis-server", config, "--sentinel"]
    with started(argv, port, ready=(("PING",), "+PONG")) as sentinel:
        yield sentinel


def respool(binary, upstream, *words, port=None, workers=2):
    """respool in front of the servers at this URL."""
    port = port or free_port()
    argv = [binary, "--upstream", upstream, "--listen", f"127.0.0.1:{port}",
            "--workers", str(workers), *words]  # fmt: skip
    return started(argv, port)


@contextlib.contextmanager
def balancer(port, targets):
    """Hands each connection to one of the ports in `targets`, in turn; the next one if nobody is there."""
    listener = socket.create_server(("127.0.0.1", port))
    turns = itertools.count()

    def connect():
        for _ in targets:
            with contextlib.suppress(OSError):
                return socket.create_connection(("127.0.0.1", targets[next(turns) % len(targets)]))
        return None

    def pump(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        # The end of one direction is the end of both: the other's `recv` returns.
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def serve():
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = connect()
                if server is None:
                    client.close()
                    continue
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=pump, args=ends, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield
    finally:
        # `close` alone would leave `accept` waiting.
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def clients_of(port):
    """How many connections of clients a respool has, by its own CLIENT LIST; None: it is not there.

    Other respools of the facade say nothing but PING; neither they nor we are counted.
    """
    try:
        listed = ask(port, "CLIENT", "LIST")
    except OSError:
        return None
    lines = (line for line in listed.splitlines() if line.startswith("id="))
    return sum(" cmd=ping " not in line for line in lines) - 1
