"""redis-py in cluster mode against respool that shows itself as a cluster.

Arguments: NAME PROTOCOL GROUP=HOST:PORT[,HOST:PORT…]…, where NAME prefixes all keys and an empty
PROTOCOL leaves the choice to the library. The groups, each optional:

    cluster, standalone   a cluster of one node; behind it a real cluster, a single server
    several               a cluster of some respools; the runner kills one when we ask
    balanced              two respools behind a balancer, shown as one node: the balancer
    off                   no facade: what the client says of a server that is no cluster
    real                  a real cluster, to judge the checks themselves

A line "ask WORDS" on stdout is a question to the runner, answered by a line on stdin.
"""

import sys
import time

import redis
from checks import ask, attempt, errors_end, groups, until
from redis.cluster import RedisCluster
from redis.exceptions import RedisClusterException

NAME, PROTOCOL, *GROUPS = sys.argv[1:]
SPREAD = 300
ERRORS = (redis.RedisError, RedisClusterException, OSError)
CHECKS, WITH_SEVERAL, BALANCED = [], [], []


def check(function):
    CHECKS.append(function)
    return function


def with_several(function):
    WITH_SEVERAL.append(function)
    return function


def balanced(function):
    BALANCED.append(function)
    return function


def connect(address, **settings):
    host, _, port = address.rpartition(":")
    if PROTOCOL:
        settings["protocol"] = int(PROTOCOL)
    return RedisCluster(host=host, port=int(port), **settings)


def key(word):
    return f"{NAME}:{word}"


@check
@balanced
def nodes(r, addresses):
    names = sorted(node.name for node in r.get_nodes())
    assert names == sorted(addresses), names
    assert r.ping() is True


@check
@balanced
def keys_of_many_slots(r, _):
    assert len({r.keyslot(key(i)) for i in range(SPREAD)}) > SPREAD * 0.9
    for i in range(SPREAD):
        assert r.set(key(i), f"value {i}") is True
        assert r.get(key(i)) == f"value {i}".encode()
    assert r.get(key("absent")) is None


@check
@balanced
def pipeline(r, _):
    pipe = r.pipeline()
    for i in range(SPREAD):
        pipe.incr(key(f"p{i}"))
        pipe.get(key(i))
        pipe.delete(key(f"p{i}"))
    answers = pipe.execute()
    assert answers[0::3] == [1] * SPREAD
    assert answers[1::3] == [f"value {i}".encode() for i in range(SPREAD)]
    assert answers[2::3] == [1] * SPREAD


@check
def error_in_a_pipeline(r, _):
    r.set(key("text"), "x")
    pipe = r.pipeline()
    pipe.incr(key("text"))
    pipe.get(key("text"))
    wrong, right = pipe.execute(raise_on_error=False)
    assert isinstance(wrong, redis.ResponseError) and right == b"x"


@check
def one_slot(r, _):
    tagged = [key("{tag}" + word) for word in "abc"]
    assert r.mset(dict(zip(tagged, "123"))) is True
    assert r.mget(*tagged, key("{tag}absent")) == [b"1", b"2", b"3", None]
    assert r.msetnx({tagged[0]: "x"}) is False
    assert r.exists(*tagged) == 3
    assert r.delete(*tagged) == 3


@check
def several_slots(r, _):
    """What the library splits itself; the others it refuses before anything is sent."""
    names = [key(f"split:{i}") for i in range(40)]
    assert all(r.mset_nonatomic({name: i for i, name in enumerate(names)}))
    assert r.mget_nonatomic(*names) == [str(i).encode() for i in range(40)]
    assert r.exists(*names) == r.touch(*names) == 40
    assert r.delete(*names[:20]) == r.unlink(*names[20:]) == 20


@check
def scripts(r, _):
    script = "return {redis.call('set', KEYS[1], ARGV[1]), redis.call('get', KEYS[1]), 7}"
    for i in range(10):
        assert r.eval(script, 1, key(f"lua{i}"), "in") == [b"OK", b"in", 7]
    registered = r.register_script("return {KEYS[1], ARGV[1]}")
    for i in range(10):
        name = key(f"lua{i}")
        assert registered(keys=[name], args=["sha"]) == [name.encode(), b"sha"]


@check
def scan_and_dbsize(r, addresses):
    """A node of the facade answers for all keys, so a client that asks each gets them from each."""
    names = {key(i).encode() for i in range(SPREAD)}
    seen = list(r.scan_iter(match=key("[0-9]*"), count=50))
    assert set(seen) == names
    everywhere = RedisCluster.PRIMARIES
    assert set(r.keys(key("[0-9]*"), target_nodes=everywhere)) == names
    if not REAL:
        assert len(seen) >= SPREAD * len(addresses), len(seen)
        whole = r.dbsize(target_nodes=r.get_random_node())
        assert r.dbsize(target_nodes=everywhere) == whole * len(addresses)


@check
def expiry(r, _):
    r.set(key("e"), "x", ex=100)
    assert 0 < r.ttl(key("e")) <= 100
    r.set(key("short"), "x", px=20)
    time.sleep(0.1)
    assert r.get(key("short")) is None


@check
def binary_and_large_values(r, _):
    every = bytes(range(256)) + b"\r\n$3\r\n*1\r\n"
    r.set(key("binary"), every)
    assert r.get(key("binary")) == every
    r.set(every, b"as a key")
    assert r.get(every) == b"as a key"
    big = bytes(i * 7 % 251 for i in range(1 << 18)) * 4
    r.set(key("big"), big)
    assert r.get(key("big")) == big


@check
@balanced
def refresh(r, addresses):
    r.nodes_manager.initialize()
    names = sorted(node.name for node in r.get_nodes())
    assert names == sorted(addresses), names
    assert r.get(key(1)) == b"value 1"


@check
def cluster_commands(r, addresses):
    assert r.cluster_keyslot("foo") == r.keyslot("foo") == 12182
    info = r.cluster_info()
    assert info["cluster_state"] == "ok" and info["cluster_known_nodes"] == str(len(addresses))
    assert sorted(r.cluster_nodes()) == sorted(addresses)
    assert sorted(f"{host}:{port}" for host, port in primaries(r.cluster_slots())) == sorted(addresses)
    ports = [field(field(shard, "nodes")[0], "port") for shard in r.cluster_shards()]
    assert sorted(f"127.0.0.1:{port}" for port in ports) == sorted(addresses)
    ids = {r.cluster_myid(node) for node in r.get_primaries()}
    assert len(ids) == len(addresses) and all(len(one) == 40 for one in ids)


def field(pairs, name):
    """The library shows names as text or as bytes, by version and protocol."""
    return pairs[name] if name in pairs else pairs[name.encode()]


def primaries(slots):
    ends = sorted(slots)
    assert ends[0][0] == 0 and ends[-1][1] == 16383, ends
    assert all(one[1] + 1 == other[0] for one, other in zip(ends, ends[1:])), ends
    return [value["primary"] for value in slots.values()]


@check
def reads_from_replicas(_, addresses):
    """With this setting the library sends READONLY on every connection."""
    with connect(addresses[0], load_balancing_strategy=round_robin()) as r:
        assert r.get(key(2)) == b"value 2"


def round_robin():
    from redis.cluster import LoadBalancingStrategy

    return LoadBalancingStrategy.ROUND_ROBIN


@with_several
def every_node_is_used(r, addresses):
    for i in range(SPREAD):
        r.set(key(i), f"value {i}")
    counts = ask("clients")
    assert len(counts) == len(addresses) and all(int(count) > 0 for count in counts), counts


@with_several
def goes_on_when_a_node_dies_and_comes_back(r, addresses):
    """The others take its share over, and give it back. The library asks for nodes after an error."""
    first = share(r, addresses[0])
    assert SPREAD / 5 < len(first) < SPREAD / 2, len(first)
    ask("kill", "0")
    all_answer(r)
    assert share(r, addresses[0]) == []
    ask("start", "0")
    share_is_back(r, addresses[0], first)
    all_answer(r)


@balanced
def all_keys_go_on_when_a_respool_dies(r, _):
    ask("kill", "balanced")
    all_answer(r)


def share(r, address):
    """The keys that the library asks this node for."""
    return [name for name in map(key, range(SPREAD)) if r.get_node_from_key(name).name == address]


def share_is_back(r, address, names):
    """Waits until the library, which asks for nodes again, asks this one for these keys as before."""

    def back():
        r.nodes_manager.initialize()
        return share(r, address) == names

    until(back)


def all_answer(r):
    """Waits for a round over all keys without an error."""

    def round_over():
        for name in map(key, range(SPREAD)):
            assert r.set(name, name) and r.get(name) == name.encode()

    errors_end(round_over, ERRORS)


def without_facade(address):
    try:
        connect(address)
    except RedisClusterException as error:
        assert "Cluster mode is not enabled on this node" in str(error), error
    else:
        raise AssertionError("took a server for a cluster that says it is none")


def main():
    global REAL
    print("version", redis.__version__)
    for group, addresses in groups(GROUPS).items():
        if group == "off":
            for number, address in enumerate(addresses):
                attempt(f"off:{number}", without_facade, address)
            continue
        REAL = group == "real"
        client = connect(addresses[0])
        chosen = {"several": CHECKS + WITH_SEVERAL, "balanced": BALANCED}.get(group, CHECKS)
        for function in chosen:
            attempt(f"{group}:{function.__name__}", function, client, addresses)
    print("end")


main()
