#!/usr/bin/env python3
"""What does one request cost?  CPU time per request of a proxy and of the server behind it.

Throughput of a proxy on a small machine mostly measures the load generator, so this tool reads what
the scheduler charged to each process while a known number of requests went through, and divides.
The proxy runs alone on one core; the server and the load share another. All targets are visited in
turn (A B C A B C ...) and compared round by round, because virtual machines change their speed from
one minute to the next: read the ratios, and an absolute figure only beside its neighbours.

It is not a latency benchmark, and it says nothing about several cores or about a real network.

    scripts/cost.py --proxy respool=target/release/respool
    scripts/cost.py --proxy respool=target/release/respool --nutcracker /usr/sbin/nutcracker --check
    scripts/cost.py --proxy old=../before/respool --proxy new=target/release/respool --rounds 9

Standard library only. Linux only (/proc). Needs redis-server and redis-benchmark on PATH.
Only processes started here are stopped.
"""

import argparse
import collections
import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
CLIENTS = 50
KEYS = 3000
VALUE_BYTES = 3
START_TIMEOUT_S = 10
LOAD_TIMEOUT_S = 300
# How many times more requests a row with a pipeline gets: they are cheaper, and the user/system
# split is sampled by the clock tick, so a row should burn some two seconds of CPU.
PIPELINE_FACTOR = 10

# The project's targets: (pipeline, what, compared with, at most). Judged by --check, row by row.
LIMITS = [
    (1, "cpu", "predixy", 0.95),
    (1, "cpu", "nutcracker", 0.85),
    (20, "cpu", "predixy", 0.65),
    (20, "cpu", "nutcracker", 0.50),
    (20, "user", "predixy", 0.30),
    (1, "server", "direct", 0.35),
]

# One visit of one target: totals over the run, times in seconds. The proxy's are 0 for "direct".
Sample = collections.namedtuple(
    "Sample", "requests seconds proxy proxy_user proxy_system server other_cores stolen_cores"
)


class Failed(Exception):
    """A condition the person at the keyboard can do something about."""


# ---------------------------------------------------------------- processes


def free_port():
    """A port that was free a moment ago; good enough on a machine of one's own."""
    with contextlib.closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def start(name, argv, port, core, folder):
    """Starts a server process on `core` (None: anywhere) and waits until it serves."""
    log_path = os.path.join(folder, f"{name}.log")
    with open(log_path, "wb") as log:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=pinned(core)
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        if serves(port):
            return process
        time.sleep(0.05)
    stop(process)
    with open(log_path, encoding="utf-8", errors="replace") as log:
        tail = log.read()[-2000:]
    raise Failed(f"{name} did not answer on port {port}: {shlex.join(argv)}\n{tail}")


def serves(port):
    """True when a SET through the port is answered; a proxy may answer PING without its server."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as sock:
            sock.sendall(b"*3\r\n$3\r\nSET\r\n$5\r\nready\r\n$1\r\n1\r\n")
            return sock.recv(64).startswith(b"+OK")
    except OSError:
        return False


def pinned(core):
    """What a child does before it executes: bind itself to the core."""
    if core is None:
        return None
    return lambda: os.sched_setaffinity(0, {core})


def stop(process):
    """Ends a process that `start` made; politely, then not."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


# ---------------------------------------------------------------- reading the scheduler


def on_cpu_s(pid):
    """Seconds on a CPU, summed over the threads; nanosecond exact (first field of schedstat).

    A thread that ends takes its time with it, so the proxy's and server's threads must be stable.
    """
    total_ns = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
            total_ns += int(file.read().split()[0])
    return total_ns / 1e9


def user_and_system_s(pid):
    """utime and stime: sampled at the clock tick, so only their proportion is used here."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        # The process name in parentheses may hold spaces; fields 14 and 15 count from its end.
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) * TICK_S, int(fields[12]) * TICK_S


def machine_s():
    """Seconds all CPUs spent busy (user, nice, system, irq, softirq), and those the host took away
    (steal; it inflates every figure while it lasts)."""
    with open("/proc/stat", encoding="ascii") as file:
        values = [int(field) for field in file.readline().split()[1:]]
    return (values[0] + values[1] + values[2] + values[5] + values[6]) * TICK_S, values[7] * TICK_S


# ---------------------------------------------------------------- one visit


def load(port, test, pipeline, requests, core):
    """Runs redis-benchmark once; returns wall seconds and the CPU seconds it took itself."""
    argv = [
        "redis-benchmark", "-h", "127.0.0.1", "-p", str(port), "-t", test, "-r", str(KEYS),
        "-n", str(requests), "-c", str(CLIENTS), "-d", str(VALUE_BYTES), "-P", str(pipeline),
        "--csv",
    ]  # fmt: skip
    before = os.times()
    run = subprocess.run(
        argv, capture_output=True, text=True, timeout=LOAD_TIMEOUT_S, preexec_fn=pinned(core)
    )
    after = os.times()
    rate = next((line for line in run.stdout.splitlines() if line.startswith(f'"{test.upper()}')), "")
    if run.returncode != 0 or not rate:
        raise Failed(f"{shlex.join(argv)} failed:\n{run.stdout[-500:]}{run.stderr[-1500:]}")
    seconds = requests / float(rate.split(",")[1].strip('"'))
    own = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, own


def visit(target, server, test, pipeline, requests, core):
    """Sends `requests` through one target and charges them to proxy and server."""
    pids = [server.pid] + ([target["process"].pid] if target["process"] else [])
    cpu_before = [on_cpu_s(pid) for pid in pids]
    split_before = user_and_system_s(pids[-1])
    machine_before, began = machine_s(), time.monotonic()
    seconds, load_cpu = load(target["port"], test, pipeline, requests, core)
    wall = time.monotonic() - began
    busy, stolen = (a - b for a, b in zip(machine_s(), machine_before))
    used = [on_cpu_s(pid) - before for pid, before in zip(pids, cpu_before)]
    user, system = (a - b for a, b in zip(user_and_system_s(pids[-1]), split_before))
    proxied = target["process"] is not None
    return Sample(
        requests=requests,
        seconds=seconds,
        proxy=used[1] if proxied else 0.0,
        proxy_user=user if proxied else 0.0,
        proxy_system=system if proxied else 0.0,
        server=used[0],
        # What strangers took: above some tenths of a core the row deserves suspicion.
        other_cores=max(0.0, (busy - sum(used) - load_cpu) / wall),
        stolen_cores=stolen / wall,
    )


# ---------------------------------------------------------------- targets


def start_targets(args, folder, server_port, core):
    """Starts every proxy that was asked for, each with one worker, and adds `direct`."""
    targets = []

    def add(name, make_argv):
        if any(target["name"] == name for target in targets):
            raise Failed(f"two targets are called {name}")
        port = free_port()
        process = start(name, make_argv(port), port, core, folder)
        targets.append({"name": name, "port": port, "process": process})

    try:
        for given in args.proxy:
            name, _, command = given.rpartition("=")
            words = shlex.split(command)
            add(name or "respool", lambda port, words=words: words + [
                "--upstream", f"redis://127.0.0.1:{server_port}",
                "--listen", f"127.0.0.1:{port}", "--workers", "1",
            ])  # fmt: skip
        if args.predixy:
            add("predixy", lambda port: [args.predixy, predixy_file(folder, port, server_port)])
        if args.nutcracker:
            add("nutcracker", lambda port: nutcracker_argv(args, folder, port, server_port))
    except BaseException:
        stop_all(targets)
        raise
    targets.append({"name": "direct", "port": server_port, "process": None})
    return targets


def predixy_file(folder, port, server_port):
    """The smallest configuration predixy takes: one standalone server, one worker."""
    path = os.path.join(folder, "predixy.conf")
    with open(path, "w", encoding="ascii") as file:
        file.write(
            f"""Name cost
Bind 127.0.0.1:{port}
WorkerThreads 1
Log {folder}/predixy.log
LogInfoSample 0
Authority {{
    Auth {{
        Mode admin
    }}
}}
StandaloneServerPool {{
    RefreshMethod fixed
    Group one {{
        + 127.0.0.1:{server_port}
    }}
}}
"""
        )
    return path


def nutcracker_argv(args, folder, port, server_port):
    """twemproxy with its own defaults: one server, mbufs of 16 KiB."""
    path = os.path.join(folder, "nutcracker.yml")
    with open(path, "w", encoding="ascii") as file:
        file.write(
            f"""alpha:
  listen: 127.0.0.1:{port}
  redis: true
  hash: fnv1a_64
  distribution: ketama
  servers:
    - 127.0.0.1:{server_port}:1
"""
        )
    stats = ["--stats-addr=127.0.0.1", f"--stats-port={free_port()}"]
    return [args.nutcracker, "-c", path] + stats


def stop_all(targets):
    for target in targets:
        if target["process"]:
            stop(target["process"])


# ---------------------------------------------------------------- figures


def figures(samples):
    """The row of one target: medians over rounds; the user part from the sums over all rounds,
    because it is sampled and needs every tick it can get."""
    per = lambda field: [getattr(s, field) / s.requests * 1e6 for s in samples]  # noqa: E731
    cpu, server = per("proxy"), per("server")
    judged = cpu if any(cpu) else server
    median = statistics.median(judged)
    return {
        "krps": statistics.median(s.requests / s.seconds for s in samples) / 1e3,
        "cpu_us": statistics.median(cpu),
        "user_us": statistics.median(cpu) * user_share(samples),
        "server_us": statistics.median(server),
        "spread": (max(judged) - min(judged)) / median if median else 0.0,
        "other_cores": statistics.median(s.other_cores for s in samples),
        "stolen_cores": statistics.median(s.stolen_cores for s in samples),
        "rounds": [s._asdict() for s in samples],
    }


def user_share(samples):
    user = sum(s.proxy_user for s in samples)
    both = user + sum(s.proxy_system for s in samples)
    return user / both if both else 0.0


def ratio(samples, partner, what):
    """Median of the ratios within each round; `user` from the sums (see `figures`)."""
    if what == "user":
        mine, theirs = (
            user_share(each) * sum(s.proxy for s in each) / sum(s.requests for s in each)
            for each in (samples, partner)
        )
        return mine / theirs if theirs else None
    field = {"cpu": "proxy", "server": "server"}[what]
    pairs = [
        (getattr(a, field) / a.requests, getattr(b, field) / b.requests)
        for a, b in zip(samples, partner)
    ]
    return statistics.median(a / b for a, b in pairs) if all(b for _, b in pairs) else None


def table(rows):
    """Markdown, so that it can be pasted into a document as it is."""
    lines = [
        "| test | target | k req/s | proxy µs/req | of it user | server µs/req | spread | others, stolen |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for (test, pipeline), by_name in rows.items():
        for name, samples in by_name.items():
            row = figures(samples)
            proxied = row["cpu_us"] > 0
            lines.append(
                f"| {test} P={pipeline} | {name} | {row['krps']:.0f} "
                f"| {format(row['cpu_us'], '.2f') if proxied else '—'} "
                f"| {format(row['user_us'], '.3f') if proxied else '—'} "
                f"| {row['server_us']:.2f} | {row['spread']:.0%} "
                f"| {row['other_cores']:.1f}, {row['stolen_cores']:.1f} |"
            )
    return lines


def ratio_table(rows, proxies):
    """Each proxy given by --proxy against every other target, round by round."""
    lines = [
        "| test | ratio | proxy CPU | of it user | server CPU |",
        "|---|---|---:|---:|---:|",
    ]
    show = lambda value: "—" if value is None else f"{value:.2f}"  # noqa: E731
    for (test, pipeline), by_name in rows.items():
        for name in proxies:
            for other, partner in by_name.items():
                if other == name:
                    continue
                cells = [show(ratio(by_name[name], partner, w)) for w in ("cpu", "user", "server")]
                lines.append(f"| {test} P={pipeline} | {name} / {other} | {' | '.join(cells)} |")
    return lines if len(lines) > 2 else []


def check(rows, proxies):
    """Compares with LIMITS; returns lines and whether all held. A missing peer is no failure,
    but it is said: a check that was not made must not look like one that passed."""
    lines, good = [], True
    for pipeline, what, other, limit in LIMITS:
        for (test, at), by_name in rows.items():
            for name in proxies if at == pipeline else []:
                if other not in by_name:
                    lines.append(f"skip  {test} P={at} {name} {what}: no {other} in this run")
                    continue
                value = ratio(by_name[name], by_name[other], what)
                held = value is not None and value <= limit
                good = good and held
                shown = "—" if value is None else f"{value:.3f}"
                lines.append(
                    f"{'ok  ' if held else 'FAIL'}  {test} P={at} {name} {what} "
                    f"{shown} × {other}'s (at most {limit})"
                )
    return lines, good


# ---------------------------------------------------------------- main


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--proxy", action="append", default=[], metavar="NAME=COMMAND",
        help="a respool binary, with further options if quoted; may be repeated")
    add("--predixy", metavar="PATH", help="a predixy binary to compare with")
    add("--nutcracker", metavar="PATH", help="a twemproxy binary to compare with")
    add("--rounds", type=int, default=5, help="visits of each target and test (default 5)")
    add("--requests", type=int, default=200_000,
        help=f"per visit without a pipeline; {PIPELINE_FACTOR} times as many with one (default 200000)")
    add("--tests", default="set,get", help="tests of redis-benchmark (default set,get)")
    add("--pipelines", default="1,20", help="pipeline depths (default 1,20)")
    add("--unpinned", action="store_true", help="let the scheduler place the processes")
    add("--proxy-core", type=int, default=0, help="core of the proxy (default 0)")
    add("--load-core", type=int, default=1, help="core of server and load (default 1)")
    add("--nice", type=int, metavar="N",
        help="give all measured processes this niceness, against a busy machine (-20 needs root)")
    add("--json", metavar="FILE", help="write every sample and figure to this file")
    add("--check", action="store_true", help="compare with the project's limits; exit 1 if missed")
    return parser.parse_args()  # fmt: skip


def raise_priority(niceness):
    """Moves this process and its children into a scheduling group of their own.

    With autogroups a niceness only counts inside one's session, so a new session is made and the
    group itself is raised; a child does the work, as the leader of a job cannot open a session.
    """
    child = os.fork()
    if child:
        signal.signal(signal.SIGINT, lambda *_: os.kill(child, signal.SIGINT))
        signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os.setsid()
    try:
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
        if os.path.exists("/proc/self/autogroup"):
            with open("/proc/self/autogroup", "w", encoding="ascii") as file:
                file.write(str(niceness))
    except PermissionError as error:
        raise Failed(f"cannot set niceness {niceness}: {error}") from error


def measure(args, folder):
    """All rounds; returns {(test, pipeline): {target: [Sample, ...]}} and the proxies' names."""
    proxy_core, load_core = (None, None) if args.unpinned else (args.proxy_core, args.load_core)
    server_port = free_port()
    server = start(
        "redis-server",
        ["redis-server", "--port", str(server_port), "--bind", "127.0.0.1", "--save", "",
         "--appendonly", "no", "--dir", folder],
        server_port, load_core, folder,
    )  # fmt: skip
    targets = []
    try:
        targets = start_targets(args, folder, server_port, proxy_core)
        proxies = [t["name"] for t in targets[: len(args.proxy)]]
        rows = {}
        for pipeline in (int(p) for p in args.pipelines.split(",")):
            requests = args.requests * (1 if pipeline == 1 else PIPELINE_FACTOR)
            for test in args.tests.split(","):
                row = rows[test.upper(), pipeline] = {t["name"]: [] for t in targets}
                for turn in range(args.rounds):
                    for target in targets:
                        sample = visit(target, server, test, pipeline, requests, load_core)
                        row[target["name"]].append(sample)
                    print(f"{test} P={pipeline}: round {turn + 1} of {args.rounds}", file=sys.stderr)
        return rows, proxies
    finally:
        stop_all(targets)
        stop(server)


def main():
    args = arguments()
    for tool in ("redis-server", "redis-benchmark"):
        if not shutil.which(tool):
            raise Failed(f"{tool} is not on PATH (Debian: apt-get install redis-server redis-tools)")
    if not args.unpinned and max(args.proxy_core, args.load_core) >= os.cpu_count():
        raise Failed("pinning needs two cores; use --unpinned or other cores")
    # Asked to end, still stop what was started: SystemExit runs the finally blocks.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if args.nice is not None:
        raise_priority(args.nice)
    with tempfile.TemporaryDirectory(prefix="respool-cost-") as folder:
        rows, proxies = measure(args, folder)
    placed = "unpinned" if args.unpinned else f"proxy on core {args.proxy_core}, server and load on core {args.load_core}"
    print(f"{CLIENTS} connections, {VALUE_BYTES}-byte values, {KEYS} keys, {args.rounds} rounds, {placed}\n")
    print("\n".join(table(rows)))
    ratios = ratio_table(rows, proxies)
    if ratios:
        print("\n" + "\n".join(ratios))
    good = True
    if args.check:
        lines, good = check(rows, proxies)
        print("\n" + "\n".join(lines))
    if args.json:
        out = {f"{t} P={p}": {n: figures(s) for n, s in row.items()} for (t, p), row in rows.items()}
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(out, file, indent=1)
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as error:
        print(f"cost: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
