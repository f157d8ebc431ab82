"""What declared types make of results, in the main output and in side outputs: what PyFlink makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from firesteel.common.typeinfo import Types
from firesteel.common.types import Row
from firesteel.datastream.functions import ProcessFunction
from firesteel.datastream.output_tag import OutputTag
from firesteel.testing import simulated_environment

INT, TEXT = Types.INT(), Types.STRING()


class Twice(ProcessFunction):
    """Every record to the side output and to the main output."""

    def __init__(self, tag: OutputTag) -> None:
        self.tag = tag

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield self.tag, value
        yield value


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        ([INT, TEXT], Row(1, "a"), Row(f0=1, f1="a")),
        ([INT, TEXT], (1, "a"), Row(f0=1, f1="a")),
        (Types.ROW([INT, TEXT]), Row(1, "a"), Row(f0=1, f1="a")),
        (Types.ROW([INT, TEXT]), [1.5, "a"], Row(f0=1, f1="a")),
        (Types.ROW_NAMED(["p", "q"], [INT, TEXT]), Row(q="a", p=1), Row(p=1, q="a")),
        (Types.TUPLE([INT, TEXT]), Row(1, "a"), (1, "a")),
        (Types.TUPLE([Types.ROW([INT])]), (Row(1),), (Row(f0=1),)),
        (Types.LIST(Types.ROW([INT])), [Row(1)], [Row(f0=1)]),
        (Types.MAP(TEXT, Types.ROW([INT])), {"a": Row(1)}, {"a": Row(f0=1)}),
        (Types.ROW([Types.ROW([INT]), Types.LIST(Types.ROW([INT]))]), Row(Row(1), [Row(2)]),
         Row(f0=Row(f0=1), f1=[Row(f0=2)])),
        (Types.OBJECT_ARRAY(Types.ROW([INT])), [Row(1)], [Row(f0=1)]),
    ],
)  # fmt: skip
def test_results_are_of_the_declared_type(declared: Any, value: Any, expected: Any) -> None:
    for in_the_side_output in (False, True):
        env = simulated_environment(parallelism=1)
        tag = OutputTag("side", declared)
        main = env.from_collection([0]).map(lambda _: value).process(Twice(tag), output_type=declared)
        stream = main.get_side_output(tag) if in_the_side_output else main
        with stream.map(lambda seen: (repr(seen), seen)).execute_and_collect() as results:
            assert [*results] == [(repr(expected), expected)]


@pytest.mark.parametrize("wrong", [int, [int], "INT", 3])
def test_what_is_no_type_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"OutputTag\(\) needs a TypeInformation"):
        OutputTag("side", wrong)
