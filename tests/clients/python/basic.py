"""redis-py against what listens on HOST PORT: commands on data of all kinds, with default settings.

Arguments: NAME PROTOCOL HOST PORT, where NAME prefixes all keys and an empty PROTOCOL leaves the
choice to the library. The rest is in `pools.py` and `cluster.py`.
"""

import sys
import threading

import redis
from checks import attempt

NAME, PROTOCOL, HOST, PORT = sys.argv[1:]
CHECKS = []
THREADS = 20
INCREMENTS = 100


def check(function):
    CHECKS.append(function)
    return function


def connect(**settings):
    if PROTOCOL:
        settings["protocol"] = int(PROTOCOL)
    return redis.Redis(host=HOST, port=int(PORT), **settings)


def key(word):
    return f"{NAME}:{word}"


@check
def ping(r):
    assert r.ping() is True


@check
def set_get(r):
    assert r.set(key("s"), "value") is True
    assert r.get(key("s")) == b"value"
    assert r.get(key("absent")) is None
    assert r.set(key("s"), "other", nx=True) is None


@check
def incr(r):
    assert [r.incr(key("n")), r.incr(key("n"), 41)] == [1, 42]
    assert r.incrbyfloat(key("f"), 0.5) == 0.5


@check
def expiry(r):
    r.set(key("e"), "x", ex=100)
    assert 0 < r.ttl(key("e")) <= 100
    assert r.persist(key("e")) and r.ttl(key("e")) == -1


@check
def mget_mset_del(r):
    r.mset({key("m1"): 1, key("m2"): 2})
    assert r.mget(key("m1"), key("absent"), key("m2")) == [b"1", None, b"2"]
    assert r.exists(key("m1"), key("m2")) == 2
    assert r.delete(key("m1"), key("m2")) == 2


@check
def hashes(r):
    assert r.hset(key("h"), mapping={"a": 1, "b": "zwei"}) == 2
    assert r.hgetall(key("h")) == {b"a": b"1", b"b": b"zwei"}
    assert r.hget(key("h"), "absent") is None


@check
def lists(r):
    assert r.rpush(key("l"), *range(10)) == 10
    assert r.lrange(key("l"), 2, 4) == [b"2", b"3", b"4"]
    assert r.lpop(key("l")) == b"0"


@check
def sets(r):
    r.sadd(key("set"), "a", "b", "c")
    assert set(r.smembers(key("set"))) == {b"a", b"b", b"c"}
    assert r.sismember(key("set"), "b")


@check
def sorted_sets(r):
    r.zadd(key("z"), {"one": 1, "two": 2.5})
    rows = r.zrange(key("z"), 0, -1, withscores=True)
    # redis-py shows pairs as tuples or as lists, by version and protocol.
    assert [tuple(row) for row in rows] == [(b"one", 1.0), (b"two", 2.5)], rows
    assert r.zscore(key("z"), "two") == 2.5


@check
def streams(r):
    first = r.xadd(key("x"), {"field": "value"})
    r.xadd(key("x"), {"field": "other"})
    assert r.xlen(key("x")) == 2
    assert r.xrange(key("x"), count=1) == [(first, {b"field": b"value"})]
    assert r.xread({key("x"): "0"}, count=2), "reads without blocking"


@check
def scan(r):
    expected = {key(f"scan:{i}").encode() for i in range(100)}
    r.mset({name: "x" for name in expected})
    assert set(r.scan_iter(match=key("scan:*"), count=10)) == expected


@check
def wrong_type_keeps_the_connection(r):
    r.rpush(key("list"), "x")
    try:
        r.get(key("list"))
    except redis.ResponseError as error:
        assert "WRONGTYPE" in str(error)
    else:
        raise AssertionError("GET of a list answered")
    assert r.llen(key("list")) == 1


@check
def unicode_and_binary(r):
    decoded = connect(decode_responses=True)
    decoded.set(key("ключ 鍵"), "значение 🦀")
    assert decoded.get(key("ключ 鍵")) == "значение 🦀"
    every = bytes(range(256)) + b"\r\n$3\r\n*1\r\n"
    r.set(every, every)
    assert r.get(every) == every
    r.set(key("empty"), b"")
    assert r.get(key("empty")) == b""


@check
def large_value(r):
    big = bytes(i * 7 % 251 for i in range(1 << 20)) * 4
    r.set(key("big"), big)
    assert r.get(key("big")) == big
    assert r.strlen(key("big")) == len(big)


@check
def databases(r):
    other = connect(db=3)
    other.set(key("db"), "three")
    assert r.get(key("db")) is None
    assert other.get(key("db")) == b"three"


@check
def wait(r):
    assert r.wait(0, 10) == 0


@check
def client_name(r):
    named = connect(client_name="somebody", single_connection_client=True)
    assert named.client_getname() in ("somebody", b"somebody")
    assert named.client_id() > 0


@check
def info(r):
    assert "redis_version" in r.info()


@check
def many_connections(r):
    wrong = []

    def work(number):
        mine = connect(single_connection_client=True)
        for turn in range(INCREMENTS):
            mine.incr(key("shared"))
            mine.set(key(f"own:{number}"), f"{number}:{turn}")
            if mine.get(key(f"own:{number}")) != f"{number}:{turn}".encode():
                wrong.append((number, turn))
        mine.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:3]
    assert r.get(key("shared")) == str(THREADS * INCREMENTS).encode()


def main():
    print("version", redis.__version__)
    client = connect()
    for function in CHECKS:
        attempt(function.__name__, function, client)
    print("end")


main()
