"""The applications: how each is installed and started, and which faults it is tried with.

Each program is started twice, as worker and as producer; what they share is explained in
`python/shared.py`.

Not here: when they are started and what came of it (`run`).
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
INSTALLED = os.path.join(HERE, ".installed")
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "clients"))

from installs import Install  # noqa: E402 - it lies where the line above says

ANYWHERE = ("restart", "sentinel", "cluster")
CROSSES_SLOTS = "its transactions have keys in several slots"
KNOWS_NO_CLUSTER = "it has no means for a cluster"


class Application:
    """A program to run.

    `none` says why it is not tried with a fault at all, `undirected` why it is not tried without
    respool there; both by fault.
    """

    def __init__(
        self, name, title, install, argv, env=None, none=None, undirected=None, short=False
    ):
        self.name, self.title, self.install, self.argv = name, title, install, argv
        self.env, self.none, self.undirected = env or {}, none or {}, undirected or {}
        # Whether it is part of the short form.
        self.short = short


def path(*words):
    return os.path.join(HERE, *words)


def installed(*words):
    return os.path.join(INSTALLED, *words)


def python_applications():
    sources = path("python")
    installs = {}
    for name, file in (("python", "requirements.txt"), ("arq", "requirements-arq.txt")):
        words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pip = [sys.executable, *words, "--target", installed(name), "-r", path("python", file)]
        installs[name] = Install(name, sources, [], [pip])
    crosses = {"none": {"cluster": CROSSES_SLOTS}}
    alone = {"undirected": {"cluster": KNOWS_NO_CLUSTER}}
    for name, title, program, how in (
        ("celery", "Celery", "celery_tasks", {**alone, "short": True}),
        ("rq", "RQ", "rq_tasks", {**crosses, "short": True}),
        ("arq", "arq", "arq_tasks", crosses),
        ("huey", "huey", "huey_tasks", alone),
        ("dramatiq", "dramatiq", "dramatiq_tasks", alone),
        ("redis-py", "redis-py", "redis_py", {"short": True}),
    ):
        install = installs.get(name, installs["python"])
        # The programs' folder comes first: a worker finds its tasks by their module's name there.
        env = {"PYTHONPATH": f"{sources}:{installed(install.name)}", "PYTHONDONTWRITEBYTECODE": "1"}
        argv = [sys.executable, path("python", f"{program}.py")]
        yield Application(name, title, install, argv, env, **how)


def node_applications():
    """npm installs beside its manifest, and Node looks for libraries beside the program."""
    folder = installed("node")
    npm = ["npm", "ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"]
    copy = ["cp", "-r", path("node") + "/.", folder]
    commands = [["mkdir", "-p", folder], copy, [*npm, "--prefix", folder]]
    install = Install("node", path("node"), ["node", "npm"], commands)
    for name, title in (("bullmq", "BullMQ"), ("ioredis", "ioredis")):
        yield Application(name, title, install, ["node", os.path.join(folder, f"{name}.mjs")])


def go_applications():
    program = installed("go-redis")
    fetch = ["go", "mod", "download", "-C", path("go")]
    build = ["go", "build", "-C", path("go"), "-o", program, "."]
    install = Install("go", path("go"), ["go"], [fetch], [build])
    yield Application("go-redis", "go-redis", install, [program])


def java_applications():
    """Maven only fetches the jars; the programs are compiled without it."""
    for name, title in (
        ("jedis", "jedis"),
        ("lettuce", "Lettuce"),
        ("spring", "Spring Data Redis (Lettuce)"),
    ):
        jars, classes = installed(name, "jars"), installed(name, "classes")
        copy = ["mvn", "-q", "-B", "-f", path("java", name, "pom.xml"),
                "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]  # fmt: skip
        programs = [path("java", "Tasks.java"), path("java", name, "Loop.java")]
        compile = ["javac", "-cp", f"{jars}/*", "-d", classes, *programs]
        install = Install(name, path("java"), ["javac", "mvn"], [copy], [compile])
        argv = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{jars}/*",
                f"survival.{name}.Loop"]  # fmt: skip
        yield Application(name, title, install, argv)


def ruby_applications():
    """A package of the system (`scripts/install survival`), not of RubyGems."""
    install = Install("sidekiq", path("ruby"), ["ruby", "sidekiq"], [])
    argv = ["ruby", path("ruby", "sidekiq_tasks.rb")]
    # On a cluster its jobs are done; its heartbeat, a transaction over several slots, is refused.
    alone = {"cluster": f"{KNOWS_NO_CLUSTER}, and its heartbeat has keys in several slots"}
    yield Application("sidekiq", "Sidekiq", install, argv, undirected=alone)


def applications():
    return [*python_applications(), *ruby_applications(), *node_applications(), *go_applications(),
            *java_applications()]  # fmt: skip
