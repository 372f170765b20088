"""RQ with its defaults: a worker that forks for each job."""

import sys

import rq
from shared import NAME, client, done, produce


def record(number):
    done(number)


def main():
    queue = rq.Queue(NAME, connection=client())
    if sys.argv[1] == "worker":
        rq.Worker([queue], connection=queue.connection).work()
    else:
        # By its name: in this process the function is one of `__main__`.
        produce(rq.VERSION, lambda number: queue.enqueue("rq_tasks.record", number))


if __name__ == "__main__":
    main()
