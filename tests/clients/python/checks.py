"""What the programs of this folder share: how a check is run and shown, and how the runner is asked."""

import sys
import time

# How long a library may show errors after something it was connected to went away.
RECOVERY_S = 10


class Lacks(Exception):
    """What a check is about is not in this library, version or protocol."""


def attempt(name, function, *arguments):
    """Runs a check and prints its line: "ok NAME", "none NAME: why" or "FAIL NAME: why"."""
    try:
        function(*arguments)
        said = f"ok {name}"
    except Lacks as why:
        said = f"none {name}: {why}"
    except Exception as error:  # noqa: BLE001 - whatever went wrong belongs into the line
        said = f"FAIL {name}: {type(error).__name__}: {error}"
    print(said.replace("\n", "\\n"), flush=True)


def ask(*words):
    """A question to the runner, answered by a line."""
    print("ask", *words, flush=True)
    return sys.stdin.readline().split()


def groups(arguments):
    """What the arguments GROUP=HOST:PORT[,HOST:PORT…] say: addresses by group."""
    pairs = (argument.partition("=") for argument in arguments)
    return {name: addresses.split(",") for name, _, addresses in pairs}


def errors_end(attempted, errors):
    """Repeats what is given until it raises none of these errors."""
    deadline = time.monotonic() + RECOVERY_S
    while True:
        try:
            return attempted()
        except errors as error:
            if time.monotonic() > deadline:
                raise
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        time.sleep(0.1)


def until(true):
    """Waits for a condition."""
    deadline = time.monotonic() + RECOVERY_S
    while not true():
        assert time.monotonic() < deadline, f"not within {RECOVERY_S} s"
        time.sleep(0.02)
