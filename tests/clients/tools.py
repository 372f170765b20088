"""redis-cli and redis-benchmark against HOST PORT, as people use them."""

import subprocess
import sys

HOST, PORT = sys.argv[1:]
TIMEOUT_S = 60
# The rows of redis-benchmark's default run by the beginning of their names, each once or more.
BENCHMARK_ROWS = [
    "PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "LPUSH", "RPUSH", "LPOP", "RPOP", "SADD",
    "HSET", "SPOP", "ZADD", "ZPOPMIN", "LRANGE_100", "LRANGE_300", "LRANGE_500", "LRANGE_600",
    "MSET",
]  # fmt: skip
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def run(*words, stdin=b""):
    done = subprocess.run(words, input=stdin, capture_output=True, timeout=TIMEOUT_S)
    output = done.stdout.decode(errors="replace")
    assert done.returncode == 0, f"{words} ended with {done.returncode}: {output}{done.stderr!r}"
    return output


def cli(*words, stdin=b""):
    return run("redis-cli", "-h", HOST, "-p", PORT, *words, stdin=stdin).rstrip("\n")


@check
def cli_answers():
    assert cli("PING") == "PONG"
    assert cli("SET", "cli:s", "a b") == "OK"
    assert cli("GET", "cli:s") == "a b"
    assert cli("--no-raw", "GET", "cli:absent") == "(nil)"
    assert cli("-r", "3", "INCR", "cli:n") == "1\n2\n3"


@check
def cli_resp3():
    cli("HSET", "cli:h", "f", "v")
    assert cli("-3", "--no-raw", "HGETALL", "cli:h") == '1# "f" => "v"'
    assert cli("-2", "--no-raw", "HGETALL", "cli:h") == '1) "f"\n2) "v"'


@check
def cli_reads_commands_from_stdin():
    said = cli(stdin=b'SET cli:quoted "two\\nlines"\nGET cli:quoted\nNOSUCH x\nSTRLEN cli:quoted\n')
    assert "two\nlines" in said and "unknown command" in said and said.endswith("9"), said


@check
def cli_last_argument_from_stdin():
    assert cli("-x", "SET", "cli:x", stdin=b"from stdin") == "OK"
    assert cli("GET", "cli:x") == "from stdin"


@check
def cli_database():
    assert cli("-n", "2", "SET", "cli:db", "two") == "OK"
    assert cli("GET", "cli:db") == ""
    assert cli("-n", "2", "GET", "cli:db") == "two"


@check
def cli_pipe():
    def command(*words):
        parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
        return b"*%d\r\n" % len(words) + b"".join(parts)

    mass = b"".join(command(b"SET", b"pipe:%d" % i, b"v%d" % i) for i in range(20_000))
    assert "errors: 0, replies: 20000" in cli("--pipe", stdin=mass)
    assert cli("GET", "pipe:19999") == "v19999"


@check
def cli_scan():
    for i in range(3):
        cli("SET", f"cliscan:{i}", "x")
    assert sorted(cli("--scan", "--pattern", "cliscan:*").split()) == [
        "cliscan:0", "cliscan:1", "cliscan:2",
    ]  # fmt: skip


@check
def cli_bigkeys():
    cli("RPUSH", "cli:list", "a", "b")
    assert "Biggest   list found" in cli("--bigkeys")


@check
def cli_eval():
    assert cli("EVAL", "return {KEYS[1], ARGV[1]}", "1", "cli:k", "arg") == "cli:k\narg"


@check
def cli_shows_errors():
    cli("SET", "cli:text", "x")
    assert "value is not an integer" in cli("INCR", "cli:text")
    assert "wrong number of arguments" in cli("GET")


@check
def benchmark_default_tests():
    rows = benchmark("-n", "2000")
    missing = [name for name in BENCHMARK_ROWS if not any(row.startswith(name) for row in rows)]
    assert not missing, f"no row for {missing}"


@check
def benchmark_pipelined():
    rows = benchmark("-n", "20000", "-P", "20", "-t", "set,get,incr,mset", "-r", "1000")
    assert len(rows) == 4, rows


@check
def benchmark_threads():
    assert len(benchmark("-n", "5000", "--threads", "2", "-t", "set,get")) == 2


@check
def benchmark_resp3():
    assert len(benchmark("-n", "2000", "-3", "-t", "set,get")) == 2


@check
def benchmark_own_command():
    assert benchmark("-n", "1000", "-r", "100", "zadd", "bench:z", "1", "m:__rand_int__")


def benchmark(*words):
    """Names of the rows that redis-benchmark measured; each must have made some progress."""
    output = run("redis-benchmark", "-h", HOST, "-p", PORT, "--csv", *words)
    rows = [line.split('","') for line in output.splitlines() if line.startswith('"')]
    rows = [row for row in rows if row[0] != '"test']
    assert all(float(row[1]) > 0 for row in rows), output
    return [row[0].strip('"') for row in rows]


def main():
    for function in CHECKS:
        try:
            function()
            print("ok", function.__name__)
        except Exception as error:  # noqa: BLE001 - whatever went wrong belongs into the line
            print(f"FAIL {function.__name__}: {type(error).__name__}: {error}".replace("\n", "\\n"))
    print("end")


main()
