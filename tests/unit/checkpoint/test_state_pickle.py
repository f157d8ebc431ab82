import collections
import copyreg
import dataclasses
import datetime
import decimal
import enum
import pickle
import subprocess
import sys
import textwrap
import threading
import types
from typing import NamedTuple

import cloudpickle
import pytest

from firesteel.checkpoint import state_pickle
from firesteel.checkpoint.state_pickle import dumps, loads
from firesteel.common.errors import CorruptStateError, IncompatibleStateError, StateNotSerializableError
from firesteel.common.typeinfo import Types
from firesteel.common.types import Row


@pytest.fixture(autouse=True)
def no_program_classes():
    state_pickle.register_program_classes({})
    yield
    state_pickle.register_program_classes({})


class Colour(enum.Enum):
    RED = 1


class Plain:
    def __init__(self, a):
        self.a = a


@dataclasses.dataclass
class Reading:
    sensor: str
    value: float = 0.0


class WithOwnWay:
    def __init__(self, secret):
        self.secret = secret

    def __reduce__(self):
        return WithOwnWay, (self.secret + 1,)


class Point(NamedTuple):
    x: int
    y: int = 0


@pytest.mark.parametrize(
    "value",
    [
        None,
        (1, "a", 2.5, b"b", [1, {2}], {"k": (True, None)}),
        Row(a=1, b="x"),
        Colour.RED,
        Reading("s", 1.0),
        Point(1, 2),
        datetime.datetime(2024, 1, 1),
        decimal.Decimal("1.5"),
        collections.Counter("abca"),
        collections.defaultdict(list, {"a": [1]}),
        int,
        type(None),
        len,
        Reading,
    ],
    ids=repr,
)
def test_value_comes_back_equal(value):
    assert loads(dumps(value)) == value


def test_plain_data_is_written_exactly_as_pickle_writes_it():
    value = [("key", (1, 2.0, "x")), {"a": [1, 2]}]
    assert dumps(value) == pickle.dumps(value, 5)


def test_object_of_a_plain_class_keeps_its_attributes():
    assert loads(dumps(Plain([1]))).a == [1]


def test_own_way_of_pickling_is_kept():
    assert loads(dumps(WithOwnWay(1))).secret == 2


def test_objects_that_contain_themselves():
    reading = Reading("s")
    reading.value = reading
    again = loads(dumps(reading))
    assert again.value is again


def test_attributes_that_are_no_fields_are_kept():
    reading = Reading("s")
    reading.cached = 5
    assert loads(dumps(reading)).cached == 5


def test_class_made_inside_a_function_travels_by_value_and_stays_the_same_class_here():
    @dataclasses.dataclass
    class Local:
        a: int

    assert loads(dumps([Local(1), Local(2)])) == [Local(1), Local(2)]


def test_lambda_in_state():
    assert loads(dumps(lambda x: x + 1))(1) == 2


def test_unpicklable_value_is_refused_with_the_remedy():
    with pytest.raises(StateNotSerializableError, match=r"cannot pickle '_thread.lock'.*open\(\)"):
        dumps({"a": threading.Lock()})


def test_bytes_that_are_no_pickle():
    with pytest.raises(CorruptStateError):
        loads(b"\x80\x05nonsense")
    with pytest.raises(CorruptStateError):
        loads(b"")


# --- fields that change


def dataclass_of(fields, **options):
    """A class ``Evolving`` of a module that can be imported, with these fields."""
    return define(dataclasses.make_dataclass("Evolving", fields, **options))


def define(cls, name="Evolving"):
    module = sys.modules.setdefault("evolving_module", types.ModuleType("evolving_module"))
    cls.__module__, cls.__qualname__ = "evolving_module", name
    setattr(module, name, cls)
    return cls


@pytest.fixture(autouse=True)
def no_evolving_module():
    yield
    sys.modules.pop("evolving_module", None)


OPTIONS = [{}, {"frozen": True}, {"slots": True}, {"frozen": True, "slots": True}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_unchanged_dataclass(options):
    cls = dataclass_of([("a", int), ("b", int)], **options)
    assert loads(dumps(cls(1, 2))) == cls(1, 2)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_field_with_default_is_added(options):
    data = dumps([dataclass_of([("a", int)], **options)(i) for i in (1, 2)])
    new = dataclass_of(
        [
            ("before", str, "x"),
            ("a", int, dataclasses.field(default=0)),
            ("made", list, dataclasses.field(default_factory=list)),
        ],
        **options,
    )
    first, second = loads(data)
    assert type(first) is new
    assert (first, second) == (new("x", 1, []), new("x", 2, []))
    assert first.made is not second.made


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_field_is_removed(options):
    data = dumps(dataclass_of([("a", int), ("b", int)], **options)(1, 2))
    new = dataclass_of([("b", int)], **options)
    again = loads(data)
    assert again == new(2)
    assert not hasattr(again, "a")


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_fields_change_their_order(options):
    data = dumps(dataclass_of([("a", int), ("b", int)], **options)(1, 2))
    new = dataclass_of([("b", int), ("a", int)], **options)
    assert loads(data) == new(b=2, a=1)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_class_without_fields_gets_one(options):
    data = dumps(dataclass_of([], **options)())
    new = dataclass_of([("a", int, 7)], **options)
    again = loads(data)
    assert type(again) is new
    assert again.a == 7


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_converted_objects_can_be_keys_and_be_written_again(options):
    hashed = {**options, "unsafe_hash": True} if not options.get("frozen") else options
    data = dumps({dataclass_of([("a", int)], **hashed)(1): "v"})
    new = dataclass_of([("a", int), ("b", int, 0)], **hashed)
    again = loads(data)
    assert again == {new(1): "v"}
    assert loads(dumps(again)) == again


def test_attributes_that_are_no_fields_survive_a_change():
    old = dataclass_of([("a", int), ("b", int)])(1, 2)
    old.cached = 5
    data = dumps(old)
    dataclass_of([("a", int)])
    assert vars(loads(data)) == {"a": 1, "cached": 5}


def test_added_field_without_default_is_refused():
    data = dumps(dataclass_of([("a", int)])(1))
    dataclass_of([("a", int), ("b", int)])
    with pytest.raises(
        IncompatibleStateError, match=r"Evolving from before its field 'b' was added.*default"
    ):
        loads(data)


def test_dataclass_that_is_none_any_more_is_refused():
    data = dumps(dataclass_of([("a", int)])(1))
    define(type("Evolving", (), {}))
    with pytest.raises(IncompatibleStateError, match=r"Evolving with the fields a; .* no dataclass"):
        loads(data)


def test_named_tuple_gets_and_loses_fields():
    data = dumps(define(collections.namedtuple("Evolving", "a b"))(1, 2))
    new = define(collections.namedtuple("Evolving", "c b", defaults=[0, 0]))
    again = loads(data)
    assert type(again) is new
    assert again == new(0, 2)
    define(collections.namedtuple("Evolving", "b d"))
    with pytest.raises(IncompatibleStateError, match="'d' was added"):
        loads(data)


def test_dataclass_with_its_own_state_keeps_it():
    cls = dataclass_of(
        [("a", int)],
        namespace={
            "__getstate__": lambda self: self.a * 2,
            "__setstate__": lambda self, state: setattr(self, "a", state),
        },
    )
    assert loads(dumps(cls(2))).a == 4


def test_registered_reducer_is_kept():
    cls = dataclass_of([("a", int)])
    copyreg.pickle(cls, lambda value: (cls, (value.a * 2,)))
    try:
        assert loads(dumps(cls(2))).a == 4
    finally:
        del copyreg.dispatch_table[cls]


def test_class_that_is_gone():
    data = dumps([dataclass_of([("a", int)])(1)])
    del sys.modules["evolving_module"].Evolving
    with pytest.raises(
        IncompatibleStateError, match=r"'Evolving', which module 'evolving_module' no longer has"
    ):
        loads(data)
    del sys.modules["evolving_module"]
    with pytest.raises(IncompatibleStateError, match="'Evolving'"):
        loads(data)


def test_declared_types_are_found_by_the_names_that_their_modules_once_had():
    kind = Types.ROW_NAMED(["at", "tags"], [Types.SQL_TIMESTAMP(), Types.LIST(Types.STRING())])
    written = pickle.dumps(kind, protocol=0)  # as text
    before = written.replace(b"firesteel.common._type_", b"firesteel.common.type_")
    assert before != written
    assert loads(before) == kind


def test_plain_class_that_is_gone():
    data = dumps(define(type("Evolving", (), {}))())
    del sys.modules["evolving_module"].Evolving
    with pytest.raises(
        IncompatibleStateError, match=r"'Evolving', which module 'evolving_module' no longer has"
    ):
        loads(data)


def test_setstate_that_raises_is_explained():
    def setstate(self, state):
        raise KeyError("a")

    data = dumps(define(type("Evolving", (), {"__setstate__": setstate, "__getstate__": lambda self: 1}))())
    with pytest.raises(IncompatibleStateError, match="KeyError"):
        loads(data)


# --- classes of the main program

DRIVER = """
import dataclasses, enum, sys
from firesteel.checkpoint import state_pickle
import cloudpickle, threading

@dataclasses.dataclass
class Event:
    name: str
    {more}
    class Inner:
        pass

class Kind(enum.Enum):
    A = "a"

class Unpicklable:
    lock = threading.Lock()

def local():
    class Local:
        def __eq__(self, other):
            return type(self) is type(other)
    return Local()

functions = cloudpickle.dumps(lambda: [Event("x"), Kind.A, Event.Inner(), local_value])
local_value = local()
functions = cloudpickle.dumps(lambda: [Event("x"), Kind.A, Event.Inner(), local_value])
with open(sys.argv[1], "wb") as file:
    import pickle
    pickle.dump((functions, state_pickle.collect_program_classes(), state_pickle.dumps(Event("driver"))), file)
"""


def run_driver(tmp_path, more=""):
    """What a driver would ship: a function that makes state values, its classes, and a value of its own."""
    program, out = tmp_path / "program.py", tmp_path / "shipped"
    program.write_text(textwrap.dedent(DRIVER).format(more=more))
    subprocess.run([sys.executable, str(program), str(out)], check=True)
    return pickle.loads(out.read_bytes())


def test_state_of_the_main_program_meets_the_classes_of_the_next_run(tmp_path):
    functions, classes, of_driver = run_driver(tmp_path)
    state_pickle.load_program_classes(classes)
    values = cloudpickle.loads(functions)()
    data = dumps(values)
    assert b"cloudpickle" not in data, "classes of the program are written by name"
    again = loads(data)
    assert (again[0], again[1], again[3]) == (values[0], values[1], values[3])
    assert type(again[2]) is type(values[2])

    functions, classes, _ = run_driver(tmp_path, more="size: int = 3")
    state_pickle.load_program_classes(classes)
    new_event, new_kind, new_inner, new_local = cloudpickle.loads(functions)()
    event, kind, inner, local = loads(data)
    assert event == new_event
    assert event.size == 3
    assert kind is new_kind
    assert type(inner) is type(new_inner)
    assert local == new_local
    assert loads(of_driver) == dataclasses.replace(new_event, name="driver")


def test_state_of_the_main_program_without_its_classes(tmp_path):
    _, classes, of_driver = run_driver(tmp_path)
    with pytest.raises(IncompatibleStateError, match="'Event', which the program no longer has"):
        loads(of_driver)
    state_pickle.load_program_classes(classes)
    assert loads(of_driver).name == "driver"
    state_pickle.load_program_classes(b"")
    with pytest.raises(IncompatibleStateError):
        loads(of_driver)


def test_classes_of_main_that_nobody_registered_travel_by_value(tmp_path):
    functions, _, _ = run_driver(tmp_path)
    values = cloudpickle.loads(functions)()
    again = loads(dumps(values))
    assert again[0] == values[0]
    assert again[1] is values[1]
