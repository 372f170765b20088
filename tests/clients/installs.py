"""Installs what programs of other languages need, by package name, and remembers it.

Shared by `tests/clients` and `tests/survival`.

Not here: which packages these are (`run` of each), and programs of the system (`scripts/install`).
"""

import hashlib
import os
import shutil
import subprocess

# A machine without any cache compiles the standard library of a language, too, beside the other tests.
INSTALL_TIMEOUT_S = 600


class Install:
    """How a library is installed, once for all programs that use it: from files in `source`.

    What `fetch` gets may not be had on a machine. That what we wrote compiles then, by `build`, is a
    test like any other.
    """

    def __init__(self, name, source, tools, fetch, build=()):
        self.name, self.source, self.tools = name, source, tools
        self.fetch, self.build = fetch, build


class Obstacle:
    """Why an installation cannot be used, and whether that is our programs' fault."""

    def __init__(self, why, ours=False):
        self.why, self.ours = why, ours


def prepare(install, folder):
    """Installs a library; returns an obstacle, or None.

    A stamp in `folder` remembers what was installed: nothing is done again until a file or a command
    changes.
    """
    for tool in install.tools:
        if not shutil.which(tool):
            return Obstacle(f"{tool} is not installed")
    stamp, state = os.path.join(folder, f"{install.name}.stamp"), fingerprint(install)
    if os.path.exists(stamp):
        with open(stamp, encoding="ascii") as file:
            if file.read() == state:
                return None
    for argv in [*install.fetch, *install.build]:
        ours = argv in install.build
        try:
            run = subprocess.run(argv, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return Obstacle(f"not done within {INSTALL_TIMEOUT_S} s: {' '.join(argv)}", ours)
        if run.returncode != 0:
            said = (run.stderr + run.stdout).strip()[-600:]
            return Obstacle(f"cannot be installed: {' '.join(argv)}\n{said}", ours)
    with open(stamp, "w", encoding="ascii") as file:
        file.write(state)
    return None


def fingerprint(install):
    """Of the commands and of all files they may read."""
    digest = hashlib.sha256(repr([install.fetch, install.build]).encode())
    for folder, _, names in sorted(os.walk(install.source)) if install.source else []:
        if os.path.basename(folder) == "__pycache__":
            continue
        for name in sorted(names):
            with open(os.path.join(folder, name), "rb") as file:
                digest.update(file.read())
    return digest.hexdigest()
