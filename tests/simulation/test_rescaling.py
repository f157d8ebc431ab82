"""Another parallelism while a job runs: the same job goes on, exactly once; what cannot be leaves it as it was."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

from firesteel.common import Configuration, JobStatus, Types, WatermarkStrategy
from firesteel.common.errors import (
    JobCancelledError,
    NotEnoughSlotsError,
    RescaleError,
    UnknownKeyOrNamespaceError,
    UnknownKvStateLocationError,
    UnknownLocationError,
)
from firesteel.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from firesteel.datastream.functions import RuntimeContext
from firesteel.datastream.state import ValueStateDescriptor
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.jobmaster.rescale_history import RescaleCause, RescaleOutcome
from firesteel.launch import observe_jobs, use_executor
from firesteel.plan.executor import Deployment, Master
from firesteel.testing import Emit, ScriptedSource, WaitForever, simulated_environment
from firesteel.testing.simulator import SimulatedAttempt, SimulatorExecutor
from firesteel_support.crash_programs import PacedSource

CHECKPOINTS = {"execution.checkpointing.interval": "20 ms"}


class Count(KeyedProcessFunction):
    """(key, number) -> (key, number, how many of the key so far)."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield value, count


def environment(parallelism: int = 2, **options: str) -> StreamExecutionEnvironment:
    return simulated_environment(configuration=Configuration.from_dict(options), parallelism=parallelism)


def counted(env: StreamExecutionEnvironment, splits: int = 4, per_split: int = 200) -> Any:
    source = PacedSource(0, splits=splits, per_split=per_split, pause=0.01)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "Numbers")
    return numbers.key_by(lambda n: n % 7).process(Count(), output_type=Types.PICKLED_BYTE_ARRAY())


def parallelism(client: Any) -> list[int]:
    return [vertex.parallelism for vertex in client.plan.vertices]


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, "it never became so"
        time.sleep(0.002)


def expected(total: int = 800) -> Counter[Any]:
    seen: Counter[int] = Counter(n % 7 for n in range(total))
    return Counter((key, place) for key, count in seen.items() for place in range(1, count + 1))


@pytest.mark.parametrize("options", [CHECKPOINTS, {}], ids=["with checkpoints", "without"])
@pytest.mark.parametrize(("before", "after"), [(2, 4), (3, 1)])
def test_collected_results_and_keyed_state_are_those_of_a_job_that_kept_its_parallelism(
    options: dict[str, str], before: int, after: int
) -> None:
    env = environment(before, **options)
    with counted(env).execute_and_collect() as results:
        client: Any = results._job
        found = [next(results) for _ in range(20)]
        rescaled = client.rescale(after)  # complete when what is under way was read
        found += results
    rescaled.result()
    assert parallelism(client) == [after, after, 1]
    assert Counter((number % 7, count) for number, count in found) == expected()
    assert len({number for number, _ in found}) == 800


class CountedSlots(SimulatorExecutor):
    """A simulator with room for so many tasks; ``claimed``: as many as it says that it has."""

    def __init__(self, slots: int, claimed: int | None = None) -> None:
        super().__init__(patience=None)
        self.slots = slots
        self.claimed = claimed
        self.starts: list[int] = []

    def count_slots(self, job_id: str, wanted: int) -> int:
        return min(wanted, self.slots if self.claimed is None else self.claimed)

    def start(self, deployment: Deployment, master: Master) -> SimulatedAttempt:
        self.starts.append(deployment.plan.slots)
        if deployment.plan.slots > self.slots:
            raise NotEnoughSlotsError(needed=deployment.plan.slots, available=self.slots)
        return super().start(deployment, master)


def endless(env: StreamExecutionEnvironment) -> Any:
    """Counts the numbers 0 to 13 by key, and goes on to run."""
    source = ScriptedSource([Emit(list(range(14))), WaitForever()])
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "Numbers").set_parallelism(1)
    return numbers.key_by(lambda n: n % 7).process(Count(), output_type=Types.PICKLED_BYTE_ARRAY())


@contextmanager
def running(executor: SimulatorExecutor, parallelism: int = 2, **options: str) -> Iterator[Any]:
    """A job whose source waits for ever; cancelled at the end."""
    configuration = Configuration.from_dict(
        {"parallelism.default": str(parallelism), **CHECKPOINTS, **options}
    )
    with use_executor(lambda _: executor):
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        endless(env).print()
        client = env.execute_async("endless")
    try:
        until(lambda: client.get_job_status().result() is JobStatus.RUNNING)
        yield client
    finally:
        client.cancel().result()


def refused(client: Any, parallelism: int, because: str) -> None:
    before = client.plan
    with pytest.raises(RescaleError, match=because):
        client.rescale(parallelism).result()
    assert client.plan is before
    until(lambda: client.get_job_status().result() is JobStatus.RUNNING)


def test_the_job_keeps_its_id_and_its_checkpoints_go_on() -> None:
    with running(CountedSlots(100)) as client:
        before = client.snapshot()
        client.rescale(3).result()
        after = client.snapshot()
        assert (after.job_id, after.attempt, after.started) == (
            before.job_id,
            before.attempt + 1,
            before.started,
        )
        assert parallelism(client) == [1, 3]
        assert after.failures == ()
        newest = after.statistics.checkpoints.begun
        until(lambda: client.statistics().checkpoints.completed > newest)
        restored = client.statistics().checkpoints.restoration
        assert restored is not None
        assert not restored.is_savepoint
        assert [each.outcome for each in after.rescales] == [RescaleOutcome.COMPLETED]


def test_the_same_parallelism_changes_nothing() -> None:
    with running(CountedSlots(100)) as client:
        client.rescale(2).result()
        assert client.snapshot().attempt == 1


def test_more_than_the_key_groups_allow_leaves_the_job_as_it_was() -> None:
    with running(CountedSlots(1000)) as client:
        refused(client, 129, "max parallelism 128")
        client.rescale(4).result()


def test_more_than_there_are_slots_leaves_the_job_as_it_was() -> None:
    with running(CountedSlots(3)) as client:
        refused(client, 4, "needs 5, Spark has 3")
        assert client.snapshot().attempt == 1


def test_slots_that_are_gone_when_they_are_needed_leave_the_job_as_it_was() -> None:
    """They were counted, the tasks have ended, and then there are none."""
    executor = CountedSlots(3, claimed=100)
    with running(executor) as client:
        refused(client, 4, "needs 5, Spark has 3")
        assert executor.starts == [3, 5, 3]
        assert parallelism(client) == [1, 2]
        assert [each.outcome for each in client.snapshot().rescales] == [RescaleOutcome.FAILED]
        executor.slots = 100
        client.rescale(4).result()
        assert parallelism(client) == [1, 4]


class Submissions:
    """Notes the jobs that are submitted."""

    def __init__(self, submitted: list[Any]) -> None:
        self.submitted = submitted

    def job_submitted(self, client: Any) -> None:
        self.submitted.append(client)

    def standing_by(self, job_id: Any) -> None:
        pass

    def engine_starting(self, job_id: Any) -> None:
        pass

    def status_changed(self, job: Any, status: JobStatus) -> None:
        pass


def test_a_checkpoint_that_fails_leaves_the_job_as_it_was(tmp_path: Path) -> None:
    directory, aside = tmp_path / "checkpoints", tmp_path / "aside"
    options = {
        "execution.checkpointing.dir": str(directory),
        "execution.checkpointing.tolerable-failed-checkpoints": "1000000",
    }
    with running(CountedSlots(100), **options) as client:
        until(lambda: client.statistics().checkpoints.completed > 0)
        directory.rename(aside)
        directory.touch()  # a file, in which nothing can be written
        refused(client, 4, "keeps its parallelism: ")
        assert client.snapshot().attempt == 1
        directory.unlink()
        aside.rename(directory)
        client.rescale(4).result()
        assert client.snapshot().attempt == 2


def test_a_job_that_is_over_or_of_batch_says_so() -> None:
    env = environment(**{"execution.runtime-mode": "BATCH"})
    env.from_collection([1, 2, 3]).print()
    client: Any = env.execute_async("short")
    client.get_job_execution_result().result()
    with pytest.raises(RescaleError, match="the job is over: FINISHED"):
        client.rescale(3).result()


ADAPTIVE = {
    "jobmanager.scheduler": "adaptive",
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout": "0 s",
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "0 s",
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "0 s",
}


def test_an_adaptive_job_starts_with_the_slots_that_there_are_and_grows_when_more_come() -> None:
    executor = CountedSlots(3)
    with running(executor, parallelism=4, **ADAPTIVE) as client:
        assert parallelism(client) == [1, 2]
        snapshot = client.snapshot()
        assert (snapshot.wanted_slots, snapshot.known_slots) == (5, 3)
        executor.slots = 50
        until(lambda: parallelism(client) == [1, 4])
        until(lambda: client.get_job_status().result() is JobStatus.RUNNING)
        causes = [each.cause for each in client.snapshot().rescales]
        assert causes == [RescaleCause.MORE_SLOTS, RescaleCause.FEWER_SLOTS]
        assert executor.starts == [3, 5]


def test_an_adaptive_job_that_fails_makes_do_with_what_is_left(tmp_path: Path) -> None:
    executor = CountedSlots(50)
    options = {
        **ADAPTIVE,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "0 s",
    }
    with running(executor, parallelism=4, **options) as client:
        assert parallelism(client) == [1, 4]
        executor.slots = 2
        client._master._runner.kill()
        until(lambda: parallelism(client) == [1, 1])
        until(lambda: client.get_job_status().result() is JobStatus.RUNNING)
        assert client.snapshot().rescales[0].cause is RescaleCause.FAILURE


def test_an_adaptive_job_without_any_slots_waits_and_can_be_cancelled() -> None:
    configuration = Configuration.from_dict({"parallelism.default": "2", **CHECKPOINTS, **ADAPTIVE})
    executor = CountedSlots(1)
    submitted: list[Any] = []
    with use_executor(lambda _: executor), observe_jobs(Submissions(submitted)):
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        endless(env).print()

        def submit() -> None:
            with suppress(JobCancelledError):
                env.execute_async("waits")

        thread = threading.Thread(target=copy_context().run, args=(submit,))  # the context knows the executor
        thread.start()
        until(lambda: bool(submitted) and submitted[0].snapshot().known_slots == 1)
        client = submitted[0]
        assert client.snapshot().status is JobStatus.CREATED
        client.cancel().result()
        thread.join(10)
    assert client.get_job_status().result() is JobStatus.CANCELED
    assert executor.starts == []


def test_states_are_asked_for_where_keys_are_after_a_rescale() -> None:
    options = {"queryable-state.enable": "true", "execution.checkpointing.interval": "100 ms"}
    env = simulated_environment(configuration=Configuration.from_dict(options), parallelism=2)
    keys = list(range(40))
    source = ScriptedSource([Emit(keys), WaitForever()])
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    numbers.key_by(lambda n: n, Types.LONG()).as_queryable_state("latest")
    client = env.execute_async("queried")
    assert isinstance(client, MasterJobClient)
    try:
        assert _until_known(client, keys) == keys
        client.rescale(3).result()
        assert set(client.plan.parallelism.values()) == {3}
        assert _until_known(client, keys) == keys
    finally:
        client.cancel().result()


def _until_known(client: MasterJobClient, keys: list[int]) -> list[int]:
    """What the state 'latest' holds for each key, once all of them are there and can be asked for."""
    while True:
        try:
            return [json.loads(client.query_state("latest", key).result()) for key in keys]
        except (UnknownKeyOrNamespaceError, UnknownKvStateLocationError, UnknownLocationError):
            time.sleep(0.01)  # between two attempts, or before the first records
