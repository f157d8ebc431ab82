"""The arithmetic of the benchmarks: what they print must be what they measured."""

from __future__ import annotations

import importlib.util
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
