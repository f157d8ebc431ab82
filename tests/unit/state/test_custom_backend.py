"""State in a store of the user's own: how it is found and opened, and what happens when it does not do its part."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError, StorageError, WrongArgumentError
from firesteel.contracts.state_backend import StateBackend, StateStore, StateStoreContext, store_opener
from firesteel.plan.shipped import Shipped
from firesteel.state.backends import check_backend, create_backend
from firesteel.state.cached.custom_backend import CustomBackend, OpenedStore
from firesteel.testing.state_stores import DictStore, check_state_store


class Remembering(DictStore):
    """Keeps its context; closing it is noted."""

    made: list[Remembering] = []

    def __init__(self, context: StateStoreContext) -> None:
        super().__init__()
        self.context = context
        self.closed = 0
        self.made.append(self)

    def close(self) -> None:
        self.closed += 1


class Backend(StateBackend):
    """A backend of one's own, as an object with a setting."""

    def __init__(self, setting: str = "by default") -> None:
        self.setting = setting

    def open(self, context: StateStoreContext) -> StateStore:
        store = Remembering(context)
        store.setting = self.setting  # type: ignore[attr-defined]
        return store


class Demanding(Backend):
    def __init__(self, address: str) -> None:
        super().__init__(address)


class WithoutStore(StateBackend):
    pass


class Unfinished(StateStore):
    def get_all(self, record_keys: Sequence[bytes]) -> list[bytes | None]:
        return []


def make_store(context: StateStoreContext) -> StateStore:
    return Remembering(context)


@pytest.fixture(autouse=True)
def _nothing_made() -> Iterator[None]:
    Remembering.made.clear()
    yield
    Remembering.made.clear()


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that configurations can name."""
    found: Any = ModuleType("stores_of_this_test")
    found.Remembering, found.Backend, found.Demanding = Remembering, Backend, Demanding
    found.WithoutStore, found.Unfinished, found.make_store = WithoutStore, Unfinished, make_store
    found.backend, found.store, found.number = Backend("an object"), DictStore(), 7
    monkeypatch.setitem(sys.modules, found.__name__, found)
    return found


def named(attribute: str, **options: str) -> Configuration:
    return Configuration.from_dict({"state.backend.type": f"stores_of_this_test:{attribute}", **options})


# Choosing ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize("attribute", ["Remembering", "Backend", "backend", "make_store", "backend.open"])
def test_the_configuration_may_name_any_kind_of_backend(attribute: str) -> None:
    configuration = named(attribute, **{"state.backend.redis.url": "redis://here"})
    check_backend(configuration)
    assert Remembering.made == []  # nothing is opened where the program runs
    backend = create_backend(configuration, operator="counter", subtask=3)
    assert type(backend) is CustomBackend
    (store,) = Remembering.made
    assert (store.context.operator, store.context.subtask) == ("counter", 3)
    assert store.context.configuration.get_string("state.backend.redis.url", "") == "redis://here"
    backend.close()
    backend.close()
    assert store.closed == 1


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("stores_of_this_test:Missing", "has no attribute 'Missing'"),
        ("no_such_module:Backend", "No module named 'no_such_module'; env.add_python_file"),
        (":Backend", "expected 'module:attribute'"),
        ("stores_of_this_test:", "expected 'module:attribute'"),
        ("stores_of_this_test:number", r"needs a StateBackend that overrides open\(\).* got 7 \(int\)"),
        ("stores_of_this_test:store", "needs a StateBackend that overrides open"),
        ("stores_of_this_test:WithoutStore", "got class WithoutStore"),
        ("stores_of_this_test:Unfinished", "which lacks put_all, scan"),
        ("stores_of_this_test:Demanding", "cannot make a Demanding without arguments: .*address"),
    ],
)
def test_what_is_no_backend_is_refused_with_a_sentence(name: str, reason: str) -> None:
    with pytest.raises(InvalidOptionError, match=reason) as caught:
        check_backend(Configuration.from_dict({"state.backend.type": name}))
    assert name in str(caught.value)
    assert "state.backend.type" in str(caught.value)


@pytest.mark.parametrize(
    "thing", [object(), dict, DictStore(), WithoutStore(), Unfinished, StateStore, "name"]
)
def test_other_things_are_no_backends(thing: object) -> None:
    with pytest.raises(WrongArgumentError, match="backends written in Java cannot keep Python state"):
        store_opener(thing, "somebody")


def test_a_backend_of_the_program_wins_over_the_configuration() -> None:
    chosen = Shipped.of(DictStore, "set_state_backend()")
    configuration = Configuration.from_dict(
        {"state.backend.type": "disk", "state.backend.disk.cache-entries": "2"}
    )
    backend = create_backend(configuration, program_backend=chosen)
    assert type(backend) is CustomBackend
    table = backend.table("t")
    for key in range(100):
        backend.touch((key,))
        table[key] = key
    assert len(table) < 10  # the size of the cache is the configuration's
    assert sorted(backend.keys_of("t")) == list(range(100))
    backend.close()


# Opening ----------------------------------------------------------------------------------------------


def test_a_store_has_a_directory_of_its_own_when_it_wants_one(tmp_path: Path) -> None:
    configuration = Configuration.from_dict({"io.tmp.dirs": str(tmp_path)})
    chosen = Shipped.of(lambda context: Remembering(context), "set_state_backend()")
    backends = [create_backend(configuration, program_backend=chosen) for _ in range(2)]
    assert list(tmp_path.iterdir()) == []
    directories = [store.context.directory() for store in Remembering.made]
    assert [store.context.directory() for store in Remembering.made] == directories
    assert sorted(directories) == sorted(map(str, tmp_path.iterdir()))
    assert len({store.context.unique_name for store in Remembering.made}) == 2
    Path(directories[0], "file").write_text("x")
    backends[0].close()
    assert [str(each) for each in tmp_path.iterdir()] == directories[1:]
    backends[1].close()
    assert not os.listdir(tmp_path)


def refuse(context: StateStoreContext) -> StateStore:
    raise ConnectionError("no database at this address")


def test_a_store_that_cannot_be_opened_is_named() -> None:
    with pytest.raises(ConnectionError) as caught:
        create_backend(Configuration(), operator="counter", program_backend=Shipped.of(refuse, "x"))
    assert "raised while the state store function refuse at" in caught.value.__notes__[0]
    assert "of operator 'counter'" in caught.value.__notes__[0]


def test_something_that_is_no_store_is_refused_when_it_is_opened() -> None:
    with pytest.raises(StorageError, match=r"must give operator 'counter' a StateStore, got \{\} \(dict\)"):
        create_backend(
            Configuration(), operator="counter", program_backend=Shipped.of(lambda context: {}, "x")
        )


# Stores that do not do their part ---------------------------------------------------------------------


def opened(**methods: Callable[..., Any]) -> OpenedStore:
    """A store in which some methods are others."""
    kind = type("Odd", (DictStore,), {name: staticmethod(method) for name, method in methods.items()})
    return OpenedStore(kind, "Odd", operator="counter")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "must give a list, got None"),
        ([], "must give 2 records, one for each record key, got 0"),
        ([b"x", "y"], "must give bytes, or None where there is no record"),
    ],
)
def test_wrong_answers_of_get_all_are_noticed(answer: Any, reason: str) -> None:
    store = opened(get_all=lambda record_keys: answer)
    with pytest.raises(
        StorageError, match=rf"get_all\(\) of the state store Odd of operator 'counter' {reason}"
    ):
        store.get_all([b"a", b"b"])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "a list, got None"),
        ([(b"b", b"1"), (b"c", b"2"), (b"d", b"3")], "at most 2 records, got 3"),
        ([b"b"], "pairs of record key and record, both bytes"),
        ([7], "pairs of record key and record, both bytes"),
        ([(b"b", "1")], "pairs of record key and record, both bytes"),
        ([(b"a", b"1")], "record keys behind b'a' in ascending order"),
        ([(b"c", b"1"), (b"b", b"1")], "record keys behind b'a' in ascending order"),
        ([(b"b", b"1"), (b"b", b"1")], "record keys behind b'a' in ascending order"),
    ],
)
def test_wrong_answers_of_scan_are_noticed(answer: Any, reason: str) -> None:
    store = opened(scan=lambda after, count: answer)
    with pytest.raises(StorageError, match=rf"scan\(\) of the state store Odd .* must give {reason}"):
        store.scan(b"a", 2)


def forget(records: Any, gone: Any) -> None:
    pass


def test_the_check_finds_a_store_that_forgets() -> None:
    forgetful = type("Forgetful", (DictStore,), {"put_all": staticmethod(forget)})
    with pytest.raises(AssertionError, match=r"(get_all|scan)\(.* expected"):
        check_state_store(forgetful)


def test_the_check_finds_a_store_that_ignores_where_to_begin() -> None:
    class FromTheStart(DictStore):
        def scan(self, after: bytes, count: int) -> list[tuple[bytes, bytes]]:
            return super().scan(b"", count)

    with pytest.raises(StorageError, match="in ascending order"):
        check_state_store(FromTheStart)
