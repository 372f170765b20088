"""dramatiq with its defaults: one process with two threads."""

import os
import sys

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from shared import NAME, client, done, produce

dramatiq.set_broker(RedisBroker(client=client(), namespace=NAME))


@dramatiq.actor
def record(number):
    done(number)


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        words = ["dramatiq_tasks", "--processes", "1", "--threads", "2"]
        os.execv(sys.executable, [sys.executable, "-m", "dramatiq", *words])
    produce(dramatiq.__version__, record.send)
