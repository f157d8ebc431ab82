"""The arithmetic of the benchmarks: what they print must be what they measured."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
NAMES = sorted(path.stem for path in BENCHMARKS.glob("[!_]*.py"))


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch):
    """Import a benchmark as a module, as if its directory were the program's."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))

    def load_module(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    return load_module


@pytest.mark.parametrize("name", NAMES)
def test_benchmark_loads_without_starting_anything(load, name: str) -> None:
    assert callable(load(name).main)


def test_timetable_makes_every_record_once_and_none_early(load) -> None:
    timetable = load("latency").Timetable(rate=1000.0, seconds=1.0)
    records = []
    now = 100.0
    while not timetable.over:
        due = timetable.due(now, limit=7)
        assert all(scheduled <= now for _, _, scheduled in due)
        records += due
        now += 0.003
    assert [key for key, _, _ in records] == list(range(1000))


def test_histogram_tells_the_upper_edge_of_the_bucket(load) -> None:
    histogram = load("latency").Histogram(Counter({9: 98, 99: 1, 999: 1}))
    assert [histogram.percentile(f) for f in (0.5, 0.99, 1.0)] == pytest.approx([0.1, 1.0, 10.0])


def test_cycling_source_hands_out_its_share(load) -> None:
    harness = load("_harness")
    reader = harness._CyclingReader(["a", "b", "c"], 7)
    polls = [reader.poll(2) for _ in range(5)]
    assert "".join(v for polled in polls for v in polled.values) == "abcabca"
    assert [polled.ended for polled in polls] == [False, False, False, False, True]


def test_bare_loops_and_the_pipeline_agree_on_what_a_chain_gives(load) -> None:
    efficiency = load("efficiency")
    records = efficiency.readings(0)[:10]
    pieces = efficiency.bare_chain(records, {})
    assert len(pieces) == 10 + sum(r[2] % 2 for r in records)


def test_memory_of_workers_is_that_of_children(load) -> None:
    harness = load("_harness")
    command = [sys.executable, "-c", "kept = bytearray(100_000_000); print(len(kept), flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        with harness.PeakMemory() as memory:
            assert child.stdout.readline()
        assert harness.worker_memory()[child.pid] >= 100_000_000
        child.communicate(b"\n")
    assert memory.peak >= 100_000_000
    assert child.pid not in harness.worker_memory()


def test_slow_function_compares_with_the_function_that_does_not_sleep(load) -> None:
    slow = load("slow_function")
    late = slow.Histogram(Counter({int(0.105 * slow.BUCKETS_PER_SECOND): 1}))
    base = slow.Timed(late, [40.0, 50.0], 0, cancel=300.0)
    found = slow.Timed(late, [50.0, 170.0], 0, cancel=411.0)
    verdicts = slow.time_texts(found, base, 10.0, in_chain=True)
    assert [text.split()[0] for text in (verdicts[3], verdicts[5], verdicts[7])] == [
        "holds",
        "holds",
        "MISSED",
    ]
    verdicts = slow.time_texts(found, base, 1.0, in_chain=True)
    assert [text.split()[0] for text in (verdicts[3], verdicts[5], verdicts[7])] == [
        "MISSED",
        "MISSED",
        "MISSED",
    ]
    nothing = slow.Timed(slow.Histogram(), [], 1, cancel=300.0)
    verdicts = slow.time_texts(nothing, base, 10.0, in_chain=True)
    assert [text.split()[0] for text in (verdicts[3], verdicts[5], verdicts[7])] == [
        "MISSED",
        "MISSED",
        "holds",
    ]


def test_slow_function_compares_memory_with_the_smallest_and_stops_at_the_limit(load) -> None:
    slow = load("slow_function")
    peaks = {
        1000: (100_000_000, 1.0, True),
        10**4: (110_000_000, 1.0, True),
        10**5: (130_000_000, 1.0, False),
    }
    rows = slow.memory_rows([1000, 10**4, 10**5, 10**6], peaks.__getitem__)
    assert [row[3] for row in rows] == ["1.00", "1.10", "1.30"]
    assert [row[4].split()[0] for row in rows] == ["holds", "holds", "MISSED"]
    assert "ended at" in rows[-1][4]


def test_bursts_come_once_a_second(load, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = load("slow_function")
    now = 100.0
    monkeypatch.setattr(slow.time, "time", lambda: now)
    reader = slow._BurstReader(5)
    assert [len(reader.poll(3).values) for _ in range(3)] == [3, 2, 0]
    assert reader.poll(3).retry_at == 101.0
    now = 101.0
    assert len(reader.poll(9).values) == 5
