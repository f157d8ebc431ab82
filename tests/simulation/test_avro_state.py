"""State in Avro's form goes on with another version of its schema. In the simulator, on every backend."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import FiresteelError
from firesteel.common.typeinfo import Types
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.contracts.source import Boundedness, Polled, Source, SourceReader, SourceReaderContext
from firesteel.datastream.formats.avro import AvroSerializer
from firesteel.datastream.functions import KeyedProcessFunction, RuntimeContext
from firesteel.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from firesteel.testing import simulated_environment
from firesteel_support.ledger import Ledger, LedgerSink

BACKENDS = {"hashmap": {}, "disk": {"state.backend.disk.cache-entries": "2"}}
KEYS = 8


def schema(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Total", "fields": list(fields)}


V1 = schema({"name": "orders", "type": "int"}, {"name": "gone", "type": "string"})
V2 = schema(
    {"name": "number", "aliases": ["orders"], "type": "double"},
    {"name": "euros", "type": "double", "default": 0.5},
)
NO_DEFAULT = schema({"name": "orders", "type": "int"}, {"name": "new", "type": "string"})


@dataclass(frozen=True)
class Total:
    orders: int
    gone: str = "x"


class Numbers(Source[int]):
    """One number for each key, and then nothing for ever."""

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def splits_of(self, subtask: int, parallelism: int) -> list[int]:
        return [subtask]

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _Reader(context.subtask)


class _Reader(SourceReader):
    def __init__(self, subtask: int) -> None:
        self.left = [*range(KEYS)] if subtask == 0 else []

    def add_splits(self, splits: Any) -> None:
        """A restored reader gives the numbers again."""

    def poll(self, limit: int) -> Polled:
        values, self.left = self.left, []
        return Polled(values, retry_at=float("inf"))


class Keep(KeyedProcessFunction):
    """Gives what the states have, and puts ``new`` into them."""

    def __init__(self, serializer: AvroSerializer, new: Any) -> None:
        self.serializer, self.new = serializer, new

    def open(self, runtime_context: RuntimeContext) -> None:
        kind = self.serializer
        self.value = runtime_context.get_state(ValueStateDescriptor("value", kind))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", kind))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.INT(), kind))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield value, self.value.value(), list(self.list.get()), dict(self.map.items())
        if self.new is not None:
            self.value.update(self.new(value))
            self.list.add(self.new(value))
            self.map.put(value, self.new(value))


@pytest.fixture
def ledger() -> Iterator[str]:
    name = f"totals {uuid.uuid4()}"
    yield name
    Ledger.forget(name)


def start(
    directory: Path, ledger: str, backend: str, serializer: AvroSerializer, new: Any, path: str | None = None
) -> Any:
    """Start the job, from a savepoint if there is one."""
    options = {
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "state.backend.type": backend,
        "restart-strategy.type": "disable",
        **BACKENDS[backend],
        **({} if path is None else {"execution.state-recovery.path": path}),
    }
    env = simulated_environment(configuration=Configuration.from_dict(options))
    numbers = env.from_source(Numbers(), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    kept = numbers.key_by(lambda number: number).process(Keep(serializer, new)).uid("keep")
    kept.add_sink(LedgerSink(ledger)).uid("ledger")
    return env.execute_async("totals")


def run(directory: Path, ledger: str, *how: Any) -> str:
    """Run the job until it has seen all keys once; the path of its savepoint."""
    count = len(Ledger.named(ledger).committed) + KEYS
    client = start(directory, ledger, *how)
    Ledger.named(ledger).wait_until_written(count)
    saved: str = client.stop_with_savepoint(False, str(directory / "savepoints")).result()
    return saved


def seen(ledger: str) -> list[Any]:
    return sorted(Ledger.named(ledger).committed[-KEYS:])


@pytest.mark.parametrize("backend", BACKENDS)
def test_dicts_are_read_with_the_schema_of_today(backend: str, tmp_path: Path, ledger: str) -> None:
    path = run(tmp_path, ledger, backend, AvroSerializer(schema=V1), lambda n: {"orders": n, "gone": "x"})
    assert seen(ledger) == [(n, None, [], {}) for n in range(KEYS)]
    run(tmp_path, ledger, backend, AvroSerializer(schema=V2), None, path)
    expected = [{"number": float(n), "euros": 0.5} for n in range(KEYS)]
    assert seen(ledger) == [(n, record, [record], {n: record}) for n, record in enumerate(expected)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_objects_are_read_as_those_of_the_class_of_today(
    backend: str, tmp_path: Path, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = run(tmp_path, ledger, backend, AvroSerializer(Total), lambda n: Total(n))
    today: Any = make_dataclass("Total", [("orders", float), ("euros", float, 0.5)], order=True)
    today.__module__ = __name__
    monkeypatch.setattr(sys.modules[__name__], "Total", today)
    run(tmp_path, ledger, backend, AvroSerializer(today), None, path)
    expected = [today(float(n), 0.5) for n in range(KEYS)]
    assert seen(ledger) == [(n, record, [record], {n: record}) for n, record in enumerate(expected)]


def test_the_same_schema_gives_back_what_was_put_in(tmp_path: Path, ledger: str) -> None:
    serializer = AvroSerializer(schema=V1)
    path = run(tmp_path, ledger, "hashmap", serializer, lambda n: {"orders": n, "gone": "x"})
    run(tmp_path, ledger, "hashmap", AvroSerializer(schema=V1), None, path)
    assert [record for _, record, _, _ in seen(ledger)] == [{"orders": n, "gone": "x"} for n in range(KEYS)]


def test_a_schema_that_cannot_read_what_was_saved_is_refused_with_what_it_lacks(
    tmp_path: Path, ledger: str
) -> None:
    path = run(tmp_path, ledger, "hashmap", AvroSerializer(schema=V1), lambda n: {"orders": n, "gone": "x"})
    client = start(tmp_path, ledger, "hashmap", AvroSerializer(schema=NO_DEFAULT), None, path)
    with pytest.raises(FiresteelError, match="an added field needs a default"):
        client.get_job_execution_result().result()
