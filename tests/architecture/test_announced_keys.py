"""Nobody changes keyed state whose key was not announced: outside of `firesteel.state`, keys are turned to by a call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "firesteel"
#: Announces the keys of batches, for all operators.
ANNOUNCES = "runtime/operators/announced.py"
#: Loops over the records of a batch that was announced, in which a call for every record would be felt.
HOT_LOOPS = {
    ("runtime/operators/interval_join.py", "_calls_of"),
    ("runtime/operators/loops.py", "create_loop"),
    ("runtime/operators/process.py", "keyed_call"),
    ("runtime/operators/raw.py", "_each_of_keys"),
    ("runtime/operators/reduce.py", "_in_context"),
    ("runtime/operators/sink.py", "_in_key_context"),
    ("runtime/operators/windows/general_operator.py", "_add_batch"),
}


def functions(tree: ast.AST, name: str = "") -> Iterator[tuple[str, ast.AST]]:
    """All parts of a module, each with the name of the method or outermost function that it stands in."""
    for node in ast.iter_child_nodes(tree):
        inside = name or (node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else "")
        yield inside, node
        yield from functions(node, inside)


def goes_past(node: ast.AST) -> str | None:
    """What a part of a program does by itself that a call on the state should do."""
    match node:
        case ast.Attribute(attr="current_key", ctx=ast.Store() | ast.Del()):
            return "sets current_key"
        case ast.Constant(value="state.current_key"):  # in a program that is put together
            return "sets current_key"
        case ast.Attribute(attr="tracks" | "touch_pairs" as name):
            return f"asks {name}"
        case ast.Call(func=ast.Attribute(value=ast.Name(id="state" | "backend"), attr="touch")):
            return "calls touch"
        case ast.Call(
            func=ast.Attribute(
                value=ast.Attribute(attr="_state" | "_keys" | "_backend" | "state"), attr="touch"
            )
        ):
            return "calls touch"
        case ast.Call(func=ast.Name(id="setattr" | "getattr"), args=[_, ast.Constant(value=name), *_]) if (
            name in {"current_key", "tracks", "touch", "touch_pairs"}
        ):
            return f"gets at {name}"
    return None


def found_in(source: str) -> set[tuple[str, str]]:
    """The functions of a module that go past the calls, and how."""
    parts = ((name, goes_past(node)) for name, node in functions(ast.parse(source)))
    return {(name, how) for name, how in parts if how is not None}


@pytest.mark.parametrize(
    ("line", "how"),
    [
        ("self._state.current_key = key", "sets current_key"),
        ("for state.current_key in keys: pass", "sets current_key"),
        ("for value, state.current_key in zip(values, keys): pass", "sets current_key"),
        ("key = self._state.current_key = key_of(value)", "sets current_key"),
        ("names = ['value', 'state.current_key']", "sets current_key"),
        ("setattr(state, 'current_key', key)", "gets at current_key"),
        ("if self._state.tracks: pass", "asks tracks"),
        ("self._state.touch_pairs([pair])", "asks touch_pairs"),
        ("self._state.touch((key,))", "calls touch"),
        ("state.touch((key,))", "calls touch"),
    ],
)
def test_what_goes_past_the_calls_is_found(line: str, how: str) -> None:
    source = f"class Operator:\n    def process(self, state):\n        {line}\n"
    assert found_in(source) == {("process", how)}


def test_the_calls_themselves_may_be_made() -> None:
    source = (
        "def process(state, key, file):\n"
        "    state.turn_to(key)\n    state.turn_to_announced(key)\n    state.announce_pairs([(key, 1)])\n"
        "    file.touch()\n    return state.current_key\n"
    )
    assert found_in(source) == set()


def test_operators_announce_keys_by_the_calls_that_cannot_forget_half() -> None:
    found = {
        (path.relative_to(SRC).as_posix(), name, how)
        for path in SRC.rglob("*.py")
        for name, how in found_in(path.read_text(encoding="utf-8"))
    }
    beyond = {
        (module, name, how)
        for module, name, how in found
        if not module.startswith("state/") and module != ANNOUNCES
    }
    assert {(module, name) for module, name, how in beyond if how == "sets current_key"} == HOT_LOOPS, (
        "call state.turn_to(key), or state.turn_to_announced(key) for a key of the batch at hand"
    )
    assert sorted(entry for entry in beyond if entry[2] != "sets current_key") == [], (
        "call announce_batch(), state.turn_to(key) or state.announce_pairs(pairs): they ask whether to announce"
    )
