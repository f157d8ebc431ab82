"""Start-up: how long until something happens - import, first job, next job.

- import: ``import firesteel.datastream`` in a fresh interpreter, which starts no JVM. Less the interpreter's own
  start, which is measured beside it. Peers: ``import pyspark.sql`` and, where installed, ``import
  pyflink.datastream``.
- first record: from the command ``firesteel run`` to the first record that comes out of it, in a fresh process, and the
  processor time of all processes until then. Peer: the least a PySpark program with one Python stage can do. Spark's
  classes have been kept by an earlier run, as on any machine where Firesteel has run before; the first start of all is
  shown beside it.
- first job: the same to the end of the program, without the command line.
- next job: in a session that is warm, from ``execute`` to the arrival of the first record at the sink, two Python
  stages and an exchange away, and to the end of the job. Peer: a PySpark job with one Python stage in the same
  session.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _harness import at_most, environment, median, note, parser
from _results import begin
from firesteel.datastream.functions import ListAccumulator, SinkFunction

FIRST_FIRESTEEL = """
from firesteel.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
env.from_collection([1]).map(lambda x: x).key_by(lambda x: x).map(lambda x: x).print()
env.execute()
"""
FIRST_PYSPARK = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
print(spark.range(0, 1, 1, 1).mapInArrow(lambda batches: batches, "id long").collect())
"""


class Arrival(SinkFunction):
    """Notes when records arrive."""

    def open(self, runtime_context: Any) -> None:
        """Make the accumulator."""
        self.times = ListAccumulator()
        runtime_context.add_accumulator("arrivals", self.times)

    def invoke(self, value: Any, context: Any) -> None:
        """Note the time."""
        self.times.add(time.time())


# Fresh interpreters -------------------------------------------------------------------------------------


def fresh_seconds(code: str, repetitions: int, python: str = sys.executable) -> float:
    """Median wall time of an interpreter that runs ``code``, with compiled files in place."""
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "PYTHONPYCACHEPREFIX": cache, "PYSPARK_PYTHON": python}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        _run_python(python, code, env)  # writes the compiled files
        return median([_run_python(python, code, env) for _ in range(repetitions)])


def _run_python(python: str, code: str, env: dict[str, str]) -> float:
    started = time.perf_counter()
    done = subprocess.run([python, "-c", code], env=env, capture_output=True, text=True, check=False)
    elapsed = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"{code}\nfailed:\n{done.stderr[-2000:]}")
    return elapsed


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """When the first line came out of a command, and what all its processes had computed until then."""

    seconds: float
    cpu_seconds: float


def first_record(command: list[str], variables: dict[str, str]) -> FirstRecord:
    """Run a command to its end, with all it has started."""
    before = _cpu_seconds()
    started = time.perf_counter()
    with subprocess.Popen(
        command, env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = FirstRecord(time.perf_counter() - started, _cpu_seconds() - before)
        process.stdout.read()
    if process.returncode or not line:
        raise SystemExit(f"{command} failed")
    return found


def _cpu_seconds() -> float:
    """Of all processes below this one, also those that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = ended.ru_utime + ended.ru_stime
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = (
                Path("/proc", name, "stat")
                .read_text(encoding="utf-8", errors="replace")
                .rpartition(")")[2]
                .split()
            )
        except OSError:
            continue  # it has just ended
        parents[int(name)] = int(fields[1])
        used[int(name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    for process, seconds in used.items():
        above = process
        while above in parents and above != os.getpid():
            above = parents[above]
        total += seconds if above == os.getpid() and process != above else 0.0
    return total


def _adopt_orphans() -> None:
    """Let what outlives its parent become a child of this process, so that its time is not lost."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def first_record_rows(repetitions: int) -> list[list[str]]:
    """From the command to the first record, in turns."""
    note(f"command to first record, {repetitions} fresh processes each")
    _adopt_orphans()
    with tempfile.TemporaryDirectory() as directory:
        ours, peer = Path(directory, "job.py"), Path(directory, "plain.py")
        ours.write_text(FIRST_FIRESTEEL, encoding="utf-8")
        peer.write_text(FIRST_PYSPARK, encoding="utf-8")
        run = [sys.executable, "-m", "firesteel.cli.main", "run", str(ours)]
        plain = [sys.executable, str(peer)]
        variables = {"PYSPARK_PYTHON": sys.executable}
        first_record(run, variables)  # after it the classes are kept
        _await_background()
        turns = [
            (
                first_record(run, variables),
                first_record(plain, variables),
                first_record(run, {**variables, "FIRESTEEL_CLASS_ARCHIVE": "0"}),
            )
            for _ in range(repetitions)
        ]
    kept, without = [turn[0] for turn in turns], [turn[2] for turn in turns]
    peers = [turn[1] for turn in turns]
    return [
        _first_record_row("firesteel run: first record", kept, peers, 6.0),
        _first_record_row("  without kept classes", without, peers, None),
        _first_record_row("  the same with plain PySpark", peers, None, None),
    ]


def _await_background() -> None:
    """Wait for what the first run has left to be done in the background: keeping Spark's classes."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def _first_record_row(
    name: str, found: list[FirstRecord], peers: list[FirstRecord] | None, target: float | None
) -> list[str]:
    seconds, cpu = median([one.seconds for one in found]), median([one.cpu_seconds for one in found])
    against = ""
    if peers is not None:
        ratio = seconds / median([one.seconds for one in peers])
        cpu_ratio = cpu / median([one.cpu_seconds for one in peers])
        against = f"{ratio:.2f} of it, CPU {cpu_ratio:.2f}"
    figure = f"{seconds:,.1f} s, CPU {cpu:,.1f} s"
    return [name, figure, against, "" if target is None else at_most(seconds, target, " s")]


def import_rows(repetitions: int) -> list[list[str]]:
    """Imports, without the interpreter's own start."""
    note(f"imports, {repetitions} fresh interpreters each")
    bare = fresh_seconds("pass", repetitions)
    ours = fresh_seconds("import firesteel.datastream", repetitions) - bare
    peers = {"import pyspark.sql": fresh_seconds("import pyspark.sql", repetitions) - bare}
    pyflink = os.environ.get("FIRESTEEL_PYFLINK_PYTHON")
    if pyflink:
        own = fresh_seconds("pass", repetitions, pyflink)
        peers["import pyflink.datastream"] = (
            fresh_seconds("import pyflink.datastream", max(3, repetitions // 4), pyflink) - own
        )
    rows = [["import firesteel.datastream", _ms(ours), "", at_most(ours * 1000, 150, " ms")]]
    return rows + [[f"  {name}", _ms(peer), f"{ours / peer:.2f} of it", ""] for name, peer in peers.items()]


def first_job_rows(repetitions: int) -> list[list[str]]:
    """Whole programs."""
    note(f"first job, {repetitions} fresh processes each")
    ours = fresh_seconds(FIRST_FIRESTEEL, repetitions)
    peer = fresh_seconds(FIRST_PYSPARK, repetitions)
    return [
        ["first job, whole program", _ms(ours), "", ""],
        ["  the same with plain PySpark", _ms(peer), f"{ours / peer:.2f} of it", ""],
    ]


# A warm session -----------------------------------------------------------------------------------------


def next_job_rows(repetitions: int) -> list[list[str]]:
    """Jobs in a session that has run jobs before."""
    note(f"next job, {repetitions} times")
    for _ in range(3):
        one_job()
        plain_spark_job()
    jobs = [(one_job(), plain_spark_job()) for _ in range(repetitions)]
    first_record = median([job[0] for job, _ in jobs])
    end = median([job[1] for job, _ in jobs])
    peer = median([plain for _, plain in jobs])
    return [
        ["warm session: first record at the sink", _ms(first_record), "", at_most(first_record, 0.5, " s")],
        ["warm session: whole job of one record", _ms(end), f"{end / peer:.2f} of it", ""],
        ["  a plain PySpark job in the same session", _ms(peer), "", ""],
    ]


def one_job() -> tuple[float, float]:
    """Seconds to the first record at the sink, and to the end of the job."""
    env = environment()
    env.from_collection([1]).key_by(lambda x: x).map(lambda x: x).add_sink(Arrival())
    started = time.time()
    result = env.execute("one record")
    return result.get_accumulator_result("arrivals")[0] - started, time.time() - started


def plain_spark_job() -> float:
    """Seconds of the smallest PySpark job with a Python stage."""
    from pyspark.sql import SparkSession

    spark = SparkSession.active()
    started = time.time()
    spark.range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id long").collect()
    return time.time() - started


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"


def main() -> None:
    arguments = parser(__doc__).parse_args()
    results = begin(__file__, "Start-up times", arguments)
    rows = import_rows(5 if arguments.quick else 20)
    rows += first_record_rows(1 if arguments.quick else 5)
    rows += first_job_rows(1 if arguments.quick else 5)
    rows += next_job_rows(5 if arguments.quick else 20)
    results.table(["what", "median", "against the peer", "target"], rows)


if __name__ == "__main__":
    main()
