"""What the Python programs share: where they connect to, what a task leaves behind, the producer.

The driver (`../run`) sets in the environment:

    SURVIVAL_URL    redis://HOST:PORT, redis-sentinel://HOST:PORT/GROUP or
                    redis-cluster://HOST:PORT,...
    SURVIVAL_DONE   the file that a task that is done adds its number to

and starts each program twice: `NAME.py worker` and `NAME.py producer TASKS PACE_MS`. The producer
prints lines: "version V", "queued N", "error CLASS: text" for an attempt that failed (and is made
again), and "end".
"""

import os
import sys
import time

NAME = "{survival}"
KIND, _, _PLACE = os.environ["SURVIVAL_URL"].partition("://")
NODES, _, GROUP = _PLACE.partition("/")
HOST, _, _PORT = NODES.split(",")[0].partition(":")
PORT = int(_PORT)


def done(number):
    """A task's effect. It stands outside of the servers, so that no fault of theirs can touch it."""
    with open(os.environ["SURVIVAL_DONE"], "a", encoding="ascii") as file:
        file.write(f"{number}\n")


def client(**words):
    """redis-py's client with its default settings, by the means that it has for such servers."""
    import redis

    if KIND == "redis-sentinel":
        known = redis.sentinel.Sentinel([(HOST, PORT)])
        return known.master_for(GROUP, **words)
    if KIND == "redis-cluster":
        return redis.RedisCluster(HOST, PORT, **words)
    return redis.Redis(HOST, PORT, **words)


def produce(version, enqueue):
    """Queues all tasks, each until that raises nothing."""
    tasks, pace_s = int(sys.argv[2]), int(sys.argv[3]) / 1000
    say(f"version {version}")
    for number in range(tasks):
        while not attempted(enqueue, number):
            time.sleep(pace_s)
        say(f"queued {number}")
        time.sleep(pace_s)
    say("end")


def attempted(enqueue, number):
    try:
        enqueue(number)
    except Exception as error:  # noqa: BLE001 - an application would not end for any of these
        say(f"error {type(error).__name__}: {' '.join(str(error).split())}")
        return False
    return True


def say(line):
    print(line, flush=True)
