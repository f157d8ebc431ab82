"""Jobs whose state lives in a store of the user's own. In the simulator, without a JVM."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import FiresteelError, JobExecutionError
from firesteel.common.job_status import JobStatus
from firesteel.common.typeinfo import Types
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.datastream import (
    CustomStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    RuntimeContext,
    StateBackend,
    StateStoreContext,
    StreamExecutionEnvironment,
)
from firesteel.datastream.state import ValueStateDescriptor
from firesteel.testing import DictStore, Emit, ScriptedSource, WaitForever, simulated_environment
from firesteel_support.ledger import Ledger, LedgerSink

KEYS = 30


class Count(KeyedProcessFunction):
    """Number -> (key, count of the key)."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield ctx.get_current_key(), count


class Watched(DictStore):
    """Counts what is done with the stores of this process."""

    opened: Counter[str] = Counter()
    calls: Counter[str] = Counter()

    def __init__(self, context: StateStoreContext) -> None:
        super().__init__()
        self.opened[context.operator] += 1

    def put_all(self, records: Sequence[tuple[bytes, bytes]], gone: Sequence[bytes]) -> None:
        self.calls["put_all"] += 1
        super().put_all(records, gone)

    def close(self) -> None:
        self.calls["close"] += 1


class Full(DictStore):
    """A store that takes nothing, and cannot even be closed."""

    def put_all(self, records: Sequence[tuple[bytes, bytes]], gone: Sequence[bytes]) -> None:
        raise OSError("the quota of the store is used up")

    def close(self) -> None:
        raise OSError("cannot close either")


class FullBackend(StateBackend):
    def open(self, context: StateStoreContext) -> Full:
        return Full(context)


@pytest.fixture
def ledger() -> Iterator[str]:
    name = f"test {uuid.uuid4()}"
    yield name
    Ledger.forget(name)


@pytest.fixture(autouse=True)
def _counted_from_zero() -> None:
    Watched.opened.clear()
    Watched.calls.clear()


def environment(parallelism: int, directory: Path, **options: str) -> StreamExecutionEnvironment:
    keys = {
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "state.backend.disk.cache-entries": "2",
        "firesteel.chunk.records": "3",
    }
    env = simulated_environment(configuration=Configuration.from_dict({**keys, **options}))
    env.set_parallelism(parallelism)
    env.set_max_parallelism(16)
    return env


def build(env: StreamExecutionEnvironment, ledger: str, *steps: Any) -> None:
    source = ScriptedSource([Emit(list(range(KEYS))), *steps])
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").set_parallelism(1)
    counted = numbers.uid(str(uuid.uuid4())).key_by(lambda number: number).process(Count()).uid("count")
    counted.name("counter").add_sink(LedgerSink(ledger)).uid("ledger")


def test_savepoints_move_between_a_store_and_memory_with_another_parallelism(
    tmp_path: Path, ledger: str
) -> None:
    """Every program counts each key once more, and begins with the state of the one before."""
    own, memory = CustomStateBackend(Watched), HashMapStateBackend()
    options = {"execution.state-recovery.ignore-unclaimed-state": "true"}  # sources begin anew
    for number, (backend, parallelism) in enumerate([(own, 2), (memory, 3), (own, 1), (own, 4)], start=1):
        env = environment(parallelism, tmp_path, **options)
        env.set_state_backend(backend)
        build(env, ledger, WaitForever())
        client = env.execute_async()
        Ledger.named(ledger).wait_until_written(number * KEYS)
        path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
        options["execution.state-recovery.path"] = path
    committed = Ledger.named(ledger).committed
    assert sorted(committed) == [(key, count) for key in range(KEYS) for count in range(1, 5)]
    assert Watched.opened == {"counter": 2 + 1 + 4}
    assert Watched.calls["close"] == 2 + 1 + 4
    assert Watched.calls["put_all"] > 10  # only a few keys fit into memory


def test_the_configuration_may_name_the_store(tmp_path: Path, ledger: str) -> None:
    env = environment(2, tmp_path, **{"state.backend.type": "firesteel.testing.state_stores:DictStore"})
    build(env, ledger)
    env.execute()
    assert sorted(Ledger.named(ledger).committed) == [(key, 1) for key in range(KEYS)]


@pytest.mark.parametrize("backend", [FullBackend(), CustomStateBackend(Full)], ids=["backend", "store"])
def test_a_store_that_fails_ends_the_task_and_is_named(
    tmp_path: Path, ledger: str, backend: StateBackend
) -> None:
    env = environment(1, tmp_path, **{"restart-strategy.type": "none"})
    env.set_state_backend(backend)
    build(env, ledger)
    with pytest.raises(JobExecutionError) as caught:
        env.execute()
    message = str(caught.value)
    assert "OSError: the quota of the store is used up" in message
    assert "raised in put_all() of the state store class Full" in message
    assert "of operator 'counter'" in message
    assert "cannot close either" not in message  # the first cause


def test_a_store_that_cannot_be_closed_fails_the_task(tmp_path: Path, ledger: str) -> None:
    env = environment(
        1, tmp_path, **{"restart-strategy.type": "none", "state.backend.disk.cache-entries": "99"}
    )
    env.set_state_backend(FullBackend())
    build(env, ledger)
    with pytest.raises(
        JobExecutionError, match=r"(?s)cannot close either.*raised in close\(\) of the state store"
    ):
        env.execute()


def refuse(context: StateStoreContext) -> DictStore:
    raise ConnectionError("nobody listens there")


def test_a_store_that_cannot_be_opened_is_named(tmp_path: Path, ledger: str) -> None:
    env = environment(1, tmp_path, **{"restart-strategy.type": "none"})
    env.set_state_backend(CustomStateBackend(refuse))
    build(env, ledger)
    with pytest.raises(JobExecutionError) as caught:
        env.execute()
    assert "ConnectionError: nobody listens there" in str(caught.value)
    assert "while the state store function refuse at" in str(caught.value)
    assert "of operator 'counter' was opened" in str(caught.value)


class Unloadable(Count):
    """A function that travels, but does not arrive."""

    def __reduce__(self) -> Any:
        return explode, ()


def explode() -> Any:
    raise ValueError("not on this machine")


def test_a_store_is_closed_when_the_function_of_its_operator_cannot_be_loaded(tmp_path: Path) -> None:
    env = environment(1, tmp_path, **{"restart-strategy.type": "none"})
    env.set_state_backend(CustomStateBackend(Watched))
    env.from_collection([1]).key_by(lambda number: number).process(Unloadable()).print()
    with pytest.raises(JobExecutionError, match="not on this machine"):
        env.execute()
    assert Watched.opened.total() == Watched.calls["close"] == 1


def test_a_store_that_cannot_be_closed_does_not_hide_why_its_operator_cannot_be_made(tmp_path: Path) -> None:
    env = environment(1, tmp_path, **{"restart-strategy.type": "none"})
    env.set_state_backend(FullBackend())
    env.from_collection([1]).key_by(lambda number: number).process(Unloadable()).print()
    with pytest.raises(
        JobExecutionError, match=r"(?s)not on this machine.*closing state failed, too: OSError"
    ):
        env.execute()


class Unreadable(DictStore):
    """A store that cannot be gone through."""

    def scan(self, after: bytes, count: int) -> list[tuple[bytes, bytes]]:
        raise OSError("the index is broken")


def test_a_store_that_cannot_be_read_for_a_checkpoint_fails_the_checkpoint_only(
    tmp_path: Path, ledger: str
) -> None:
    env = environment(1, tmp_path, **{"restart-strategy.type": "none"})
    env.set_state_backend(CustomStateBackend(Unreadable))
    build(env, ledger, WaitForever())
    client = env.execute_async()
    Ledger.named(ledger).wait_until_written(KEYS)
    with pytest.raises(FiresteelError) as caught:
        client.trigger_savepoint(str(tmp_path / "savepoints")).result()
    assert "the index is broken" in str(caught.value)
    assert "raised in scan() of the state store class Unreadable" in str(caught.value)
    assert client.get_job_status().result() is JobStatus.RUNNING
    client.cancel().result()
