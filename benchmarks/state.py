"""Keyed state and timers: against PyFlink, against Spark's transformWithState, and what they weigh.

- value_state: a count per key in a keyed process function, for every record. The same unchanged program on Firesteel
  and on PyFlink (tuned as in ``vs_pyflink``); for Spark it is written as a StatefulProcessor with RocksDB.
- timers: every record registers an event-time timer, ten records the same one, and all of them ring. The same unchanged
  program on Firesteel and on PyFlink.
- memory: how much a process grows by keys with a value, and by a timer for each.

Rates are differences: in records between two sizes over the difference in seconds, so that starting up costs nothing;
for Spark, rows over seconds of the micro batches that follow the first ones.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import re
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _contest import PROGRAMS, Duel, duel, firesteel_command, made_environment, measure, output_of
from _harness import at_least, at_most, median, note, parser, rate_text, ratio_text
from _results import begin
from firesteel.common import Types
from firesteel.datastream.functions import KeyedProcessFunction
from firesteel.datastream.state import ValueStateDescriptor

VALUE_STATE = Duel("value_state 1000", (1_000_000, 9_000_000), (20_000, 260_000))
VALUE_STATE_QUICK = Duel("value_state 1000", (500_000, 4_000_000), (20_000, 140_000))
TIMERS = Duel("timers", (1_000_000, 7_000_000), (20_000, 160_000))
TIMERS_QUICK = Duel("timers", (500_000, 3_500_000), (20_000, 100_000))

PROTOBUF = "protobuf>=6.33.5,<7"  # what PySpark 4.3's transformWithState needs beside PySpark
KEYS = 10_000
ROWS_PER_BATCH = 200_000
WARM_UP = 3  # micro batches, until the JVM has compiled what it uses
TARGET_SPARK = 15

MEMORY_KEYS = 1_000_000
MEMORY_LIMIT_MB = 1000


def main() -> None:
    arguments = _arguments()
    results = begin(__file__, "Keyed state and timers, parallelism 2 on all engines", arguments)
    repeat = arguments.repeat or (1 if arguments.quick else 2)
    value_state, timers = (VALUE_STATE_QUICK, TIMERS_QUICK) if arguments.quick else (VALUE_STATE, TIMERS)
    rows = duel(value_state, repeat)[1]
    rows += duel(timers, repeat)[1]
    rows += spark_rows(value_state.ours, repeat, 2 if arguments.quick else 4, arguments.pandas)
    results.table(["program", "engine", "records/s", "Firesteel is", "target"], rows)
    results.table(["memory, a million keys", "", "target"], memory_rows())


# Spark -----------------------------------------------------------------------------------------------


def spark_rows(sizes: tuple[int, int], repeat: int, batches: int, pandas: bool) -> list[list[str]]:
    """The count with more keys on Firesteel and with transformWithState: rows of the table."""
    program = f"value_state {KEYS}"
    ours = measure(firesteel_command(*program.split()), sizes, (), repeat).rate
    rows = [[program, "Firesteel", rate_text(ours), "", ""]]
    kinds = {"row": "Spark transformWithState", "pandas": "Spark transformWithStateInPandas"}
    for kind, name in kinds.items() if pandas else [("row", kinds["row"])]:
        theirs = spark_rate(kind, batches)
        ratio = ours / theirs
        target = at_least(ratio, TARGET_SPARK)
        rows.append(["", name, rate_text(theirs), f"{ratio_text(ratio)}x", target])
    return rows


def spark_rate(kind: str, batches: int) -> float:
    """Rows per second over the micro batches after the first ones; the median."""
    note(f"transform_with_state.py {kind} {KEYS} {ROWS_PER_BATCH}")
    environment = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": protobuf_path()}
    program = [sys.executable, str(PROGRAMS / "transform_with_state.py"), kind]
    output = output_of([*program, str(KEYS), str(ROWS_PER_BATCH), str(WARM_UP + batches)], environment)
    found = [(int(rows), int(ms)) for rows, ms in re.findall(r"^batch (\d+) (\d+)$", output, re.MULTILINE)]
    note(f"  milliseconds of the batches: {', '.join(str(ms) for _, ms in found)}")
    return median([rows / ms * 1000 for rows, ms in found[WARM_UP:]])


def protobuf_path() -> str:
    """Where the protobuf package is that PySpark's StatefulProcessor imports."""
    interpreter = made_environment("protobuf-6", PROTOBUF)
    where = "import google.protobuf as p, pathlib; print(pathlib.Path(p.__file__).parents[2])"
    done = subprocess.run([str(interpreter), "-c", where], capture_output=True, text=True, check=True)
    return done.stdout.strip()


# Memory ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Weight:
    """Bytes of a process before and after it has filled its state."""

    before: int
    after: int


class Remember(KeyedProcessFunction):
    """Keeps a number for every key and, if told so, a timer."""

    def __init__(self, has_timers: bool) -> None:
        self.has_timers = has_timers

    def open(self, runtime_context: Any) -> None:
        """Ask for the state."""
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        """A value that no other key has, and a time that no other timer has."""
        self.seen.update(ctx.timestamp())
        if self.has_timers:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 3_600_000)


def fill(keys: int, has_timers: bool) -> Weight:
    """Fill the state of one operator in this process."""
    from firesteel.testing import FunctionHarness

    harness = FunctionHarness(Remember(has_timers), key_selector=lambda key: key)
    before = resident_bytes()
    for start in range(0, keys, 1000):
        numbers = range(start, start + 1000)
        harness.process_elements([f"user-{n:08}" for n in numbers], [1_700_000_000_000 + n for n in numbers])
    gc.collect()
    return Weight(before, resident_bytes())


def resident_bytes() -> int:
    """Memory that this process has now; where /proc is missing, the most it ever had."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * resource.getpagesize()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def memory_rows() -> list[list[str]]:
    """What a million keys weigh, each measured in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        plain = pool.apply(fill, (MEMORY_KEYS, False))
        timed = pool.apply(fill, (MEMORY_KEYS, True))
    per_key = (plain.after - plain.before) / MEMORY_KEYS
    per_timer = (timed.after - timed.before) / MEMORY_KEYS - per_key
    total = timed.after / 1e6
    return [
        ["a key (13 characters) with a value (a number)", f"{per_key:.0f} bytes", ""],
        ["a timer for it", f"{per_timer:.0f} bytes", ""],
        ["the whole process, with both", f"{total:.0f} MB", at_most(total, MEMORY_LIMIT_MB, " MB")],
    ]


def _arguments() -> argparse.Namespace:
    found = parser(__doc__)
    found.add_argument("--repeat", type=int, help="repetitions of everything; medians are shown")
    found.add_argument("--pandas", action="store_true", help="also Spark's transformWithStateInPandas")
    return found.parse_args()


if __name__ == "__main__":
    main()
