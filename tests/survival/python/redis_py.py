"""redis-py with its default retries: a list of tasks, and a worker that waits with BLPOP."""

import sys
import time

import redis
from shared import NAME, client, done, produce, say

QUEUE = f"{NAME}:queue"
WAIT_S = 2
# After an error, as applications have it.
PAUSE_S = 0.1


def work():
    connection = client()
    while True:
        try:
            taken = connection.blpop([QUEUE], WAIT_S)
        except (redis.ConnectionError, redis.TimeoutError) as error:
            # What every application goes on after. Any other error ends this worker.
            say(f"error {type(error).__name__}: {error}")
            time.sleep(PAUSE_S)
            continue
        if taken:
            done(int(taken[1]))


if sys.argv[1] == "worker":
    work()
else:
    queue = client()
    produce(redis.__version__, lambda number: queue.rpush(QUEUE, number))
