"""huey with its defaults, two worker threads."""

import sys

import huey
from shared import NAME, client, done, produce

queue = huey.RedisHuey(NAME, connection_pool=client().connection_pool)


@queue.task()
def record(number):
    done(number)


if sys.argv[1] == "worker":
    queue.create_consumer(workers=2).run()
else:
    produce(huey.__version__, record)
