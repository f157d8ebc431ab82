"""Simulated jobs whose state is asked for while they run: over HTTP, by the client, of every backend and kind of state."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from firesteel import launch
from firesteel.common import Configuration, JobID, Types, WatermarkStrategy
from firesteel.common.errors import (
    FiresteelError,
    QueryableStateError,
    TypeMismatchError,
    UnknownKeyOrNamespaceError,
    UnknownKvStateLocationError,
    UnknownLocationError,
    UnsupportedOperationError,
)
from firesteel.datastream import CustomStateBackend, DiscardingSink, StreamExecutionEnvironment
from firesteel.datastream.functions import AggregateFunction, KeyedProcessFunction, RuntimeContext
from firesteel.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.queryable_state import QueryableStateClient
from firesteel.rest.service import RestService
from firesteel.rest.settings import RestSettings
from firesteel.testing import Emit, ScriptedSource, WaitForever, simulated_environment
from firesteel.testing.state_stores import DictStore
from firesteel_support.rest_client import RestClient

WORDS = ["ada", "alan", "ada", "grace", "ada", "alan"]


class Mean(AggregateFunction):
    """The mean length of words."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: str, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + len(value), accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
        return left[0] + right[0], left[1] + right[1]


def descriptors() -> dict[str, StateDescriptor]:
    """One of every kind."""
    return {
        "value": ValueStateDescriptor("v", Types.TUPLE([Types.STRING(), Types.LONG()])),
        "list": ListStateDescriptor("l", Types.LONG()),
        "map": MapStateDescriptor("m", Types.LONG(), Types.STRING()),
        "reducing": ReducingStateDescriptor("r", lambda a, b: a + b, Types.LONG()),
        "aggregating": AggregatingStateDescriptor("a", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()])),
    }


class Everything(KeyedProcessFunction):
    """Keeps words in states of every kind, and raises on a word as long as a file is not there."""

    def __init__(self, failed: Path | None = None) -> None:
        self._failed = failed

    def open(self, runtime_context: RuntimeContext) -> None:
        made = descriptors()
        for kind, descriptor in made.items():
            descriptor.set_queryable(f"all {kind}s")
        self._value = runtime_context.get_state(made["value"])
        self._list = runtime_context.get_list_state(made["list"])
        self._map = runtime_context.get_map_state(made["map"])
        self._reducing = runtime_context.get_reducing_state(made["reducing"])
        self._aggregating = runtime_context.get_aggregating_state(made["aggregating"])

    def process_element(self, value: str, ctx: Any) -> Iterator[str]:
        if value == "fail" and self._failed is not None and not self._failed.exists():
            self._failed.touch()
            raise ValueError("as told")
        count = (self._value.value() or ("", 0))[1] + 1
        self._value.update((value, count))
        self._list.add(count)
        self._map.put(count, value)
        self._reducing.add(10)
        self._aggregating.add(value)
        yield value


class KeepsOne(KeyedProcessFunction):
    """Keeps the newest record in a state that is queryable under a name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("newest", Types.STRING())
        descriptor.set_queryable(self._name)
        self._state = runtime_context.get_state(descriptor)

    def process_element(self, value: str, ctx: Any) -> None:
        self._state.update(value)


@pytest.fixture
def rest() -> Iterator[RestClient]:
    service = RestService(RestSettings())
    with launch.observe_jobs(service):
        yield RestClient(service.url)
    service.close(linger_seconds=0)


@pytest.fixture
def client(rest: RestClient) -> Iterator[QueryableStateClient]:
    at = urlsplit(rest.url)
    assert at.hostname is not None
    assert at.port is not None
    with QueryableStateClient(at.hostname, at.port, timeout=30) as made:
        yield made


def environment(**options: str) -> StreamExecutionEnvironment:
    configuration = {"queryable-state.enable": "true", "restart-strategy.type": "none"}
    configuration |= {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return simulated_environment(parallelism=3, configuration=Configuration.from_dict(configuration))


def started(env: StreamExecutionEnvironment, *script: Any, failed: Path | None = None) -> MasterJobClient:
    source = env.from_source(ScriptedSource(list(script)), WatermarkStrategy.no_watermarks(), "Words")
    keyed = source.key_by(lambda word: word, key_type=Types.STRING())
    keyed.process(Everything(failed)).name("Everything").print()
    job = env.execute_async("words")
    assert isinstance(job, MasterJobClient)
    return job


def await_words(rest: RestClient, job: MasterJobClient, count: int) -> None:
    """The task has processed so many records: then the state has them."""
    path = f"/jobs/{job.get_job_id()}"
    rest.wait_for(path, lambda each: each["vertices"][-1]["metrics"]["read-records"] == count)


def look_up(rest: RestClient, job: MasterJobClient, **query: str) -> tuple[int, Any]:
    path = f"/jobs/{job.get_job_id()}/queryable-states/lookup?{urlencode(query)}"
    return rest.call("GET", path)


@pytest.mark.parametrize("backend", ["hashmap", "disk", "custom"])
def test_every_kind_of_state_can_be_asked_for_on_every_backend(
    rest: RestClient, client: QueryableStateClient, backend: str
) -> None:
    env = environment() if backend == "custom" else environment(state__backend__type=backend)
    if backend == "custom":
        env.set_state_backend(CustomStateBackend(DictStore))
    job = started(env, Emit(WORDS), WaitForever())
    await_words(rest, job, len(WORDS))
    made = descriptors()
    futures = {
        kind: client.get_kv_state(job.get_job_id(), f"all {kind}s", "ada", Types.STRING(), descriptor)
        for kind, descriptor in made.items()
    }
    assert futures["value"].result().value() == ("ada", 3)
    assert futures["list"].result().get() == [1, 2, 3]
    assert dict(futures["map"].result().items()) == {1: "ada", 2: "ada", 3: "ada"}
    assert futures["reducing"].result().get() == 30
    assert futures["aggregating"].result().get() == 3.0
    assert look_up(rest, job, name="all maps", key='"alan"') == (
        200,
        {"name": "all maps", "value": [[1, "alan"], [2, "alan"]]},
    )
    job.cancel().result()


def test_the_states_of_a_job_are_listed(rest: RestClient) -> None:
    job = started(environment(), Emit(WORDS), WaitForever())
    await_words(rest, job, len(WORDS))
    shown = rest.get(f"/jobs/{job.get_job_id()}/queryable-states")["states"]
    assert [(each["name"], each["kind"]) for each in shown] == [
        ("all aggregatings", "aggregating"),
        ("all lists", "list"),
        ("all maps", "map"),
        ("all reducings", "reducing"),
        ("all values", "value"),
    ]
    assert {(each["operator"], each["key-type"]) for each in shown} == {("Everything", "String")}
    vertices = rest.get(f"/jobs/{job.get_job_id()}")["vertices"]
    assert {each["vertex"] for each in shown} == {vertices[-1]["id"]}
    job.cancel().result()


def test_what_cannot_be_answered_says_why(rest: RestClient, client: QueryableStateClient) -> None:
    job = started(environment(), Emit(WORDS), WaitForever())
    await_words(rest, job, len(WORDS))
    descriptor = descriptors()["value"]

    def error(
        name: str, key: Any, key_type: Any = None, wanted: StateDescriptor = descriptor
    ) -> BaseException | None:
        future = client.get_kv_state(job.get_job_id(), name, key, key_type or Types.STRING(), wanted)
        with pytest.raises(Exception) as raised:  # noqa: PT011 - looked at below
            future.result()
        return raised.value

    nothing = error("all values", "nobody")
    assert isinstance(nothing, UnknownKeyOrNamespaceError)
    assert str(nothing) == "state 'all values' holds nothing for the key 'nobody'"
    unknown = error("no values", "ada")
    assert isinstance(unknown, UnknownKvStateLocationError)
    assert "no state of job 'words' is queryable as 'no values'; these are: 'all aggregatings'," in str(
        unknown
    )
    wrong_key = error("all values", 3, Types.LONG())
    assert isinstance(wrong_key, QueryableStateError)
    assert "expected String, got 3 (int)" in str(wrong_key)
    assert isinstance(error("all values", "ada", wanted=descriptors()["map"]), TypeMismatchError)
    job.cancel().result()
    over = error("all values", "ada")
    assert isinstance(over, QueryableStateError)
    assert "is CANCELED" in str(over) or "the job is over: CANCELED" in str(over)


def test_bad_requests_get_codes_and_harm_nobody(rest: RestClient) -> None:
    job = started(environment(), Emit(WORDS), WaitForever())
    await_words(rest, job, len(WORDS))
    deep = "[" * 500 + "]" * 500
    cases = {
        (("name", "all values"),): (400, "parameter 'key' is missing"),
        (("key", "ada"),): (400, "parameter 'name' is missing"),
        (("name", "all values"), ("key", "3")): (400, "expected String, got 3 (int)"),
        (("name", "all values"), ("key", "[1, 2]")): (400, "expected String, got [1, 2] (list)"),
        (("name", "all values"), ("key", deep)): (400, "nested more than 32 times"),
        (("name", ""), ("key", "x")): (
            404,
            "UnknownKvStateLocationError: no state of job 'words' is queryable as ''",
        ),
        (("name", "all values"), ("key", "x")): (404, "UnknownKeyOrNamespaceError"),
    }
    for query, (code, sentence) in cases.items():
        status, answer = look_up(rest, job, **dict(query))
        assert (status, sentence in answer["errors"][0]) == (code, True), answer
    assert look_up(rest, job, name="all values", key="ada")[0] == 200, "a text that is no JSON is a text"
    assert rest.get(f"/jobs/{job.get_job_id()}/status") == {"status": "RUNNING"}
    job.cancel().result()


def test_without_the_option_nobody_is_answered(rest: RestClient) -> None:
    job = started(environment(queryable_state__enable="false"), Emit(WORDS), WaitForever())
    await_words(rest, job, len(WORDS))
    assert rest.get(f"/jobs/{job.get_job_id()}/queryable-states") == {"states": []}
    status, answer = look_up(rest, job, name="all values", key="ada")
    assert status == 409
    assert "start it with 'queryable-state.enable' set to true" in answer["errors"][0]
    job.cancel().result()


def test_after_a_restart_a_state_is_what_the_checkpoint_had_and_what_came_since(
    rest: RestClient, client: QueryableStateClient, tmp_path: Path
) -> None:
    env = environment(
        restart_strategy__type="fixed-delay",
        restart_strategy__fixed_delay__delay="1 ms",
        execution__checkpointing__interval="50 ms",
        execution__checkpointing__dir=str(tmp_path / "checkpoints"),
    )
    job = started(env, Emit(["ada", "fail", "ada"]), WaitForever(), failed=tmp_path / "failed")
    rest.wait_for(f"/jobs/{job.get_job_id()}/metrics?get=numRestarts", lambda each: each[0]["value"] == "1")
    await_words(rest, job, 3)
    future = client.get_kv_state(
        str(job.get_job_id()), "all values", "ada", Types.STRING(), descriptors()["value"]
    )
    assert future.result().value() == ("ada", 2), "asked while the job starts, the client waits"
    job.cancel().result()


def test_a_stream_that_ends_in_queryable_state(rest: RestClient, client: QueryableStateClient) -> None:
    env = environment()
    pairs = [("ada", 1), ("alan", 2), ("ada", 3)]
    typed = Types.TUPLE([Types.STRING(), Types.LONG()])
    source = env.from_source(
        ScriptedSource([Emit(pairs), WaitForever()]), WatermarkStrategy.no_watermarks(), "Pairs"
    ).map(lambda pair: pair, output_type=typed)
    keyed = source.key_by(lambda pair: pair[0])
    newest = keyed.as_queryable_state("newest")
    assert newest.get_queryable_state_name() == "newest"
    assert newest.get_state_descriptor().type_info == typed
    total = ReducingStateDescriptor("total", lambda a, b: (a[0], a[1] + b[1]), typed)
    keyed.as_queryable_state("total", total)
    assert not total.is_queryable(), "whoever has made the descriptor may use it for another stream"
    job = env.execute_async("pairs")
    assert isinstance(job, MasterJobClient)
    rest.wait_for(
        f"/jobs/{job.get_job_id()}",
        lambda each: [v["metrics"]["read-records"] for v in each["vertices"][1:]] == [3, 3],
    )
    asked = [
        client.get_kv_state(
            job.get_job_id(), "newest", "ada", Types.STRING(), ValueStateDescriptor("x", typed)
        ),
        client.get_kv_state(job.get_job_id(), "total", "ada", Types.STRING(), total),
    ]
    assert asked[0].result().value() == ("ada", 3)
    assert asked[1].result().get() == ("ada", 4)
    job.cancel().result()


def test_two_states_of_one_name_end_the_job() -> None:
    env = environment()
    source = env.from_collection(WORDS).key_by(lambda word: word)
    source.process(KeepsOne("same")).name("One")
    source.process(KeepsOne("same")).name("Two")
    with pytest.raises(
        FiresteelError, match="two states of job 'twice' are queryable as 'same': 'newest' of 'One' and"
    ):
        env.execute("twice")


def test_what_is_given_can_only_be_read(rest: RestClient, client: QueryableStateClient) -> None:
    job = started(environment(), Emit(WORDS), WaitForever())
    await_words(rest, job, len(WORDS))
    states = {
        kind: client.get_kv_state(
            job.get_job_id(), f"all {kind}s", "ada", Types.STRING(), descriptor
        ).result()
        for kind, descriptor in descriptors().items()
    }
    changes = [
        lambda: states["value"].update(3),
        lambda: states["list"].add(3),
        lambda: states["map"].put(3, "x"),
        lambda: states["reducing"].add(3),
        lambda: states["aggregating"].add("x"),
        *(state.clear for state in states.values()),
    ]
    for change in changes:
        with pytest.raises(UnsupportedOperationError, match="can only be read"):
            change()
    job.cancel().result()


class Twice(KeyedProcessFunction):
    """Adds every number twice, and so much comes out in between that the call has to pause there.

    It begins when there is a file: when somebody is ready to ask.
    """

    def __init__(self, begins: Path) -> None:
        self._begins = begins

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ListStateDescriptor("numbers", Types.LONG())
        descriptor.set_queryable("numbers")
        self._numbers = runtime_context.get_list_state(descriptor)

    def process_element(self, value: int, ctx: Any) -> Iterator[bytes]:
        while not self._begins.exists():
            time.sleep(0.001)
        self._numbers.add(value)
        for _ in range(20):
            yield bytes(1 << 20)
        self._numbers.add(value)


def test_nobody_sees_half_of_what_a_record_does(
    rest: RestClient, client: QueryableStateClient, tmp_path: Path
) -> None:
    begins = tmp_path / "begins"
    env = environment()
    source = ScriptedSource([*(Emit([number]) for number in range(40)), WaitForever()])
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "Numbers")
    twice = numbers.key_by(lambda number: number % 2, key_type=Types.LONG()).process(Twice(begins))
    twice.rebalance().map(len).add_sink(DiscardingSink())
    job = env.execute_async("twice")
    descriptor = ListStateDescriptor("x", Types.LONG())
    lengths: set[int] = set()
    rest.get(f"/jobs/{job.get_job_id()}")  # the first answer of an interface takes as long as its imports
    begins.touch()
    while len(seen := _numbers(client, job, descriptor)) < 40:
        lengths.add(len(seen))
        assert seen[::2] == seen[1::2]
    assert lengths - {0}, "it was asked while the job was at work"
    job.cancel().result()


def _numbers(client: QueryableStateClient, job: Any, descriptor: StateDescriptor) -> list[int]:
    try:
        found: list[int] = (
            client.get_kv_state(job.get_job_id(), "numbers", 0, Types.LONG(), descriptor).result().get()
        )
    except UnknownKeyOrNamespaceError:
        return []
    return found


def test_a_client_without_a_server_says_so() -> None:
    with QueryableStateClient("localhost", 9, timeout=1) as client:
        future = client.get_kv_state(
            JobID(), "x", "ada", Types.STRING(), ValueStateDescriptor("x", Types.LONG())
        )
        with pytest.raises(
            UnknownLocationError, match="http://localhost:9 does not answer: ConnectionRefusedError"
        ):
            future.result()


def test_keys_reach_the_task_that_has_them_whatever_their_type(
    rest: RestClient, client: QueryableStateClient
) -> None:
    env = environment()
    words = [f"word {number}" for number in range(200)]
    keyed = env.from_source(
        ScriptedSource([Emit(words), WaitForever()]), WatermarkStrategy.no_watermarks(), "Words"
    ).key_by(lambda word: (word[:4], int(word[5:])), key_type=Types.TUPLE([Types.STRING(), Types.INT()]))
    keyed.as_queryable_state("declared")
    keyed.key_by(lambda word: (word[:4], int(word[5:]))).as_queryable_state("undeclared")
    job = env.execute_async("keys")
    assert isinstance(job, MasterJobClient)
    rest.wait_for(
        f"/jobs/{job.get_job_id()}",
        lambda each: [v["metrics"]["read-records"] for v in each["vertices"][1:]] == [200, 200],
    )
    key_type, descriptor = (
        Types.TUPLE([Types.STRING(), Types.INT()]),
        ValueStateDescriptor("x", Types.STRING()),
    )
    futures = [
        (word, client.get_kv_state(job.get_job_id(), name, ("word", int(word[5:])), key_type, descriptor))
        for word in words
        for name in ("declared", "undeclared")
    ]
    assert all(future.result().value() == word for word, future in futures)
    assert look_up(rest, job, name="declared", key='["word", 7]') == (
        200,
        {"name": "declared", "value": "word 7"},
    )
    job.cancel().result()
