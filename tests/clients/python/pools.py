"""redis-py, as an application that knows one server, against every kind of pool behind respool.

Arguments: NAME GROUP=HOST:PORT…, where NAME prefixes all keys and a group is what stands behind the
address: `standalone` (one server), `sentinel` (a server that sentinels know), `cluster` (three nodes).

The programs named pools in all languages have the checks that stand here, under the same names:

    connect            default settings
    resp2              on a connection of that protocol: a map, a subscription, a blocking command
    resp3              the same with the other protocol
    pipeline           keys of all nodes, with an error in the middle
    transaction        MULTI … EXEC with its answers; DISCARD
    watch              clients that add to one number in a WATCH loop; no increment is lost
    subscribe          a channel: confirmed, a message, unsubscribed, nothing of it any more
    psubscribe         the same with a pattern
    ssubscribe         the same with a sharded channel
    blocking           BLPOP that another client wakes, and one that runs into its timeout
    scripts            EVAL, and the library's helper, which asks by digest first
    reconnect_server   the same client goes on when the server was killed and started again
    reconnect_respool  the same client goes on when respool was
    resubscribe        so does its subscription, without a word from the application

Questions to the runner: "restart server GROUP" and "restart respool GROUP".
"""

import sys
import threading
import uuid

import redis
from checks import Lacks, ask, attempt, errors_end, groups

NAME = sys.argv[1]
GROUPS = groups(sys.argv[2:])
ERRORS = (redis.RedisError, OSError)
SPREAD = 100
WRITERS, INCREMENTS = 4, 10
MESSAGE_S = 5
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


class Pool:
    """A group, and the client with default settings that all its checks share."""

    def __init__(self, group, address):
        self.group = group
        self.host, _, self.port = address.rpartition(":")
        self.client = self.connect()

    def connect(self, **settings):
        return redis.Redis(host=self.host, port=int(self.port), **settings)

    def key(self, word):
        return f"{NAME}:{self.group}:{word}"


@check
def connect(pool):
    assert pool.client.ping() is True
    assert pool.client.set(pool.key("s"), "value") is True
    assert pool.client.get(pool.key("s")) == b"value"


@check
def resp2(pool):
    speaks(pool, 2)


@check
def resp3(pool):
    speaks(pool, 3)


def speaks(pool, protocol):
    client = pool.connect(protocol=protocol)
    name = pool.key(f"map{protocol}")
    client.hset(name, mapping={"a": "1", "b": "2"})
    # Without the library's own conversion, which makes both look the same.
    client.set_response_callback("HGETALL", lambda raw, **_: raw)
    raw = client.execute_command("HGETALL", name)
    assert isinstance(raw, dict) == (protocol == 3), raw
    exchange(client, *SUBSCRIBE, pool.key(f"channel{protocol}"))
    assert client.blpop([pool.key("none")], timeout=0.05) is None


@check
def pipeline(pool):
    pool.client.set(pool.key("text"), "x")
    pipe = pool.client.pipeline(transaction=False)
    for i in range(SPREAD):
        pipe.set(pool.key(i), i).get(pool.key(i))
    pipe.incr(pool.key("text")).get(pool.key("text"))
    answers = pipe.execute(raise_on_error=False)
    assert answers[1:-2:2] == [str(i).encode() for i in range(SPREAD)]
    assert isinstance(answers[-2], redis.ResponseError) and answers[-1] == b"x"


@check
def transaction(pool):
    name = pool.key("t")
    with pool.client.pipeline() as pipe:
        assert pipe.set(name, 1).incr(name).get(name).execute() == [True, 2, b"2"]
    with pool.client.pipeline() as pipe:
        pipe.watch(name)
        pipe.multi()
        pipe.set(name, "discarded")
        pipe.reset()
    assert pool.client.get(name) == b"2"


@check
def watch(pool):
    name = pool.key("w")
    pool.client.set(name, 0)

    def increment(pipe):
        value = int(pipe.get(name))
        pipe.multi()
        pipe.set(name, value + 1)

    def write():
        for _ in range(INCREMENTS):
            pool.client.transaction(increment, name)

    writers = [threading.Thread(target=write) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert int(pool.client.get(name)) == WRITERS * INCREMENTS


# Method to subscribe, method to unsubscribe, command to publish, kind of the messages.
SUBSCRIBE = ("subscribe", "unsubscribe", "PUBLISH", "message")
PSUBSCRIBE = ("psubscribe", "punsubscribe", "PUBLISH", "pmessage")
SSUBSCRIBE = ("ssubscribe", "sunsubscribe", "SPUBLISH", "smessage")


@check
def subscribe(pool):
    exchange(pool.client, *SUBSCRIBE, pool.key("channel"))


@check
def psubscribe(pool):
    exchange(pool.client, *PSUBSCRIBE, pool.key("pattern"))


@check
def ssubscribe(pool):
    if not hasattr(pool.client.pubsub(), "ssubscribe"):
        raise Lacks("the library has no sharded channels")
    exchange(pool.client, *SSUBSCRIBE, pool.key("shard"))


def exchange(client, subscribe, unsubscribe, publish, kind, channel):
    """Two channels: after leaving the first, its message must not come before that of the second."""
    first, second = channel + ":1", channel + ":2"
    wild = "*" if kind == "pmessage" else ""
    with client.pubsub() as listener:
        for name in (first, second):
            getattr(listener, subscribe)(name + wild)
            assert following(listener, kind)["type"] == subscribe
        client.execute_command(publish, first, "one")
        got = following(listener, kind)
        assert (got["type"], got["channel"], got["data"]) == (kind, first.encode(), b"one"), got
        if wild:
            assert got["pattern"] == (first + wild).encode()
        getattr(listener, unsubscribe)(first + wild)
        assert following(listener, kind)["type"] == unsubscribe
        client.execute_command(publish, first, "nobody")
        client.execute_command(publish, second, "two")
        got = following(listener, kind)
        assert (got["channel"], got["data"]) == (second.encode(), b"two"), got


def following(listener, kind):
    got = listener.get_message(timeout=MESSAGE_S)
    assert got, f"no {kind} within {MESSAGE_S} s"
    return got


@check
def blocking(pool):
    name, got = pool.key("list"), []
    waiting = threading.Thread(target=lambda: got.append(pool.client.blpop([name], timeout=10)))
    waiting.start()
    pool.client.rpush(name, "x")
    waiting.join()
    assert [tuple(pair) for pair in got] == [(name.encode(), b"x")]
    assert pool.client.blpop([pool.key("none")], timeout=0.1) is None


@check
def scripts(pool):
    # Never seen before by the server, so that the digest is unknown at first.
    text = f"return {{KEYS[1], ARGV[1]}} -- {uuid.uuid4()}"
    for i in range(10):
        name = pool.key(f"lua{i}")
        assert pool.client.eval(text, 1, name, "in") == [name.encode(), b"in"]
    helper = pool.client.register_script(text + " again")
    for i in range(10):
        name = pool.key(f"lua{i}")
        assert helper(keys=[name], args=["sha"]) == [name.encode(), b"sha"]


@check
def reconnect_server(pool):
    ask("restart", "server", pool.group)
    errors_end(lambda: round_trip(pool), ERRORS)


@check
def reconnect_respool(pool):
    ask("restart", "respool", pool.group)
    errors_end(lambda: round_trip(pool), ERRORS)


def round_trip(pool):
    for i in range(SPREAD):
        assert pool.client.set(pool.key(i), i) and int(pool.client.get(pool.key(i))) == i


@check
def resubscribe(pool):
    channel = pool.key("again")
    with pool.client.pubsub() as listener:
        listener.subscribe(channel)
        assert following(listener, "message")["type"] == "subscribe"
        ask("restart", "respool", pool.group)

        def heard():
            pool.client.publish(channel, "after")
            got = listener.get_message(timeout=0.2)
            # The confirmation of the library's own SUBSCRIBE comes first.
            while got and got["type"] != "message":
                got = listener.get_message(timeout=0.2)
            if not got:
                raise TimeoutError("no message")
            assert got["data"] == b"after"

        errors_end(heard, ERRORS)


def main():
    print("version", redis.__version__)
    for group, addresses in GROUPS.items():
        pool = Pool(group, addresses[0])
        for function in CHECKS:
            attempt(f"{group}:{function.__name__}", function, pool)
    print("end")


main()
