"""Celery with its defaults: two processes, results in the same servers."""

import sys

import celery
from shared import GROUP, HOST, KIND, NAME, NODES, PORT, done, produce

if KIND == "redis-sentinel":
    URL = ";".join(f"sentinel://{node}" for node in NODES.split(","))
    OPTIONS = {"master_name": GROUP}
else:
    URL, OPTIONS = f"redis://{HOST}:{PORT}/0", {}

app = celery.Celery("tasks", broker=URL, backend=URL)
app.conf.broker_transport_options = {**OPTIONS, "global_keyprefix": f"{NAME}:"}
app.conf.result_backend_transport_options = app.conf.broker_transport_options
# Without it an old line of the log asks for a decision; it is what the next version does.
app.conf.broker_connection_retry_on_startup = True


@app.task(name="record")
def record(number):
    done(number)


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        app.worker_main(["worker", "--concurrency", "2", "--loglevel", "INFO"])
    else:
        produce(celery.__version__, record.delay)
