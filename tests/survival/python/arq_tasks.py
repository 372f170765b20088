"""arq with its defaults."""

import asyncio
import importlib.metadata
import sys

import arq
from arq.connections import RedisSettings
from shared import GROUP, HOST, KIND, NAME, PORT, done, produce

if KIND == "redis-sentinel":
    SETTINGS = RedisSettings(host=[(HOST, PORT)], sentinel=True, sentinel_master=GROUP)
else:
    SETTINGS = RedisSettings(host=HOST, port=PORT)


async def record(_context, number):
    done(number)


class Worker:
    functions = [record]
    redis_settings = SETTINGS
    queue_name = f"{NAME}:queue"


if sys.argv[1] == "worker":
    arq.run_worker(Worker)
else:
    loop = asyncio.new_event_loop()
    pool = loop.run_until_complete(arq.create_pool(SETTINGS, default_queue_name=Worker.queue_name))
    produce(
        importlib.metadata.version("arq"),
        lambda number: loop.run_until_complete(pool.enqueue_job("record", number)),
    )
