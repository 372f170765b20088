"""redis-cli, as people use it by hand and in scripts, against every kind of pool behind respool.

Arguments: GROUP=HOST:PORT…; the groups, the checks and the questions to the runner are those of
`pools.py`.
"""

import contextlib
import queue
import subprocess
import sys
import tempfile
import threading
import uuid

from checks import Lacks, ask, attempt, errors_end, groups

SPREAD = 100
WRITERS, INCREMENTS = 4, 10
TIMEOUT_S = 10
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


class Session:
    """A redis-cli that reads commands from us line by line and goes on."""

    def __init__(self, argv):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            argv, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True, bufsize=1
        )
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))

    def says(self, command, lines=1):
        """The reply to a command, of so many lines."""
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.following(lines)

    def following(self, lines, timeout_s=TIMEOUT_S):
        try:
            return [self.lines.get(timeout=timeout_s) for _ in range(lines)]
        except queue.Empty:
            raise AssertionError(f"no line within {timeout_s} s") from None

    def close(self):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()


class Pool:
    def __init__(self, group, address):
        host, _, port = address.rpartition(":")
        self.group, self.argv = group, ["redis-cli", "-h", host, "-p", port]

    def key(self, word):
        return f"redis-cli:{self.group}:{word}"

    def cli(self, *words, given=""):
        done = subprocess.run(
            [*self.argv, *words], input=given, capture_output=True, text=True, timeout=TIMEOUT_S
        )
        assert done.returncode == 0, f"{words} ended with {done.returncode}: {done.stderr}"
        return done.stdout.rstrip("\n")

    @contextlib.contextmanager
    def session(self, *words):
        session = Session([*self.argv, *words])
        try:
            yield session
        finally:
            session.close()


@check
def connect(pool):
    assert pool.cli("PING") == "PONG"
    assert pool.cli("SET", pool.key("s"), "value") == "OK"
    assert pool.cli("GET", pool.key("s")) == "value"


@check
def resp2(pool):
    speaks(pool, "-2", '1) "a"\n2) "1"')


@check
def resp3(pool):
    speaks(pool, "-3", '1# "a" => "1"')


def speaks(pool, option, expected):
    name = pool.key("map" + option)
    pool.cli("HSET", name, "a", "1")
    assert pool.cli(option, "--no-raw", "HGETALL", name) == expected
    assert pool.cli(option, "--no-raw", "BLPOP", pool.key("none"), "0.05") == "(nil)"
    exchange(pool, "", "PUBLISH", option=option)


@check
def pipeline(pool):
    def command(*words):
        parts = [f"${len(word)}\r\n{word}\r\n" for word in words]
        return f"*{len(words)}\r\n" + "".join(parts)

    mass = "".join(command("SET", pool.key(i), str(i)) for i in range(SPREAD))
    assert f"errors: 0, replies: {SPREAD}" in pool.cli("--pipe", given=mass)
    lines = "".join(f"GET {pool.key(i)}\n" for i in range(SPREAD))
    assert pool.cli(given=lines).split() == [str(i) for i in range(SPREAD)]


@check
def transaction(pool):
    name = pool.key("t")
    with pool.session() as session:
        assert session.says("MULTI") == ["OK"]
        assert session.says(f"SET {name} 1") == ["QUEUED"]
        assert session.says(f"INCR {name}") == ["QUEUED"]
        assert session.says("EXEC", lines=2) == ["OK", "2"]
        assert session.says("MULTI") == ["OK"]
        assert session.says(f"SET {name} discarded") == ["QUEUED"]
        assert session.says("DISCARD") == ["OK"]
        assert session.says(f"GET {name}") == ["2"]


@check
def watch(pool):
    name = pool.key("w")
    pool.cli("SET", name, "0")

    def write():
        with pool.session("--no-raw") as session:
            done = 0
            while done < INCREMENTS:
                session.says(f"WATCH {name}")
                value = int(session.says(f"GET {name}")[0].strip('"'))
                session.says("MULTI")
                session.says(f"SET {name} {value + 1}")
                done += session.says("EXEC") != ["(nil)"]

    writers = [threading.Thread(target=write) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert int(pool.cli("GET", name)) == WRITERS * INCREMENTS


@check
def subscribe(pool):
    exchange(pool, "", "PUBLISH")


@check
def psubscribe(pool):
    exchange(pool, "p", "PUBLISH")


@check
def ssubscribe(pool):
    exchange(pool, "s", "SPUBLISH")


def exchange(pool, kind, publish, option="-2"):
    """redis-cli only ever leaves its channels by its end, so two sessions take the place of leaving."""
    first, second = pool.key(f"{kind}channel{option}:1"), pool.key(f"{kind}channel{option}:2")
    suffix = "*" if kind == "p" else ""
    command = f"{kind}subscribe"
    with listening(pool, option, command, first + suffix) as left:
        pool.cli(publish, first, "one")
        heard(left, kind, first, suffix, "one")
    with listening(pool, option, command, second + suffix) as stays:
        pool.cli(publish, first, "nobody")
        pool.cli(publish, second, "two")
        heard(stays, kind, second, suffix, "two")


def heard(session, kind, channel, suffix, text):
    expected = [f"{kind}message", *([channel + suffix] if suffix else []), channel, text]
    said = session.following(len(expected))
    assert said == expected, said


@contextlib.contextmanager
def listening(pool, option, command, name):
    with pool.session(option, command, name) as session:
        confirmed = session.following(3)
        assert confirmed == [command, name, "1"], confirmed
        yield session


@check
def blocking(pool):
    name = pool.key("list")
    with pool.session("BLPOP", name, str(TIMEOUT_S)) as waiting:
        pool.cli("RPUSH", name, "x")
        assert waiting.following(2) == [name, "x"]
    assert pool.cli("--no-raw", "BLPOP", pool.key("none"), "0.1") == "(nil)"


@check
def scripts(pool):
    text = f"return {{KEYS[1], ARGV[1]}} -- {uuid.uuid4()}"
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(text)
        file.flush()
        name = pool.key("lua")
        assert pool.cli("--eval", file.name, name, ",", "in").split() == [name, "in"]
    digest = pool.cli("SCRIPT", "LOAD", text + " again")
    for i in range(10):
        name = pool.key(f"lua{i}")
        assert pool.cli("EVALSHA", digest, "1", name, "sha").split() == [name, "sha"]


@check
def reconnect_server(pool):
    reconnects(pool, "server")


@check
def reconnect_respool(pool):
    reconnects(pool, "respool")


def reconnects(pool, what):
    """One redis-cli all the time: it connects again by itself when it finds its connection lost."""
    name = pool.key("again")
    with pool.session() as session:
        assert session.says(f"SET {name} before") == ["OK"]
        ask("restart", what, pool.group)
        errors_end(lambda: back(session, name), (AssertionError,))


def back(session, name):
    """An error may take several lines, so what was sent last is told by a word of its own."""
    word = uuid.uuid4().hex
    session.says(f"SET {name} {word}", lines=0)
    session.says(f"ECHO {word}", lines=0)
    while session.following(1, timeout_s=1) != [word]:
        pass
    said = session.says(f"GET {name}")
    assert said == [word], said


@check
def resubscribe(pool):
    raise Lacks("it ends when its connection is lost")


def main():
    said = subprocess.run(["redis-cli", "--version"], capture_output=True, text=True).stdout
    print("version", said.split()[1])
    for group, addresses in groups(sys.argv[1:]).items():
        pool = Pool(group, addresses[0])
        for function in CHECKS:
            attempt(f"{group}:{function.__name__}", function, pool)
    print("end")


main()
