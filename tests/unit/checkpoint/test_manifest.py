import dataclasses
from pathlib import Path

import pytest

from firesteel.checkpoint import manifest as manifest_module
from firesteel.checkpoint.manifest import Manifest, OperatorState
from firesteel.common.errors import CorruptStateError, StateError
from firesteel.plan.state_handles import (
    CheckpointKind,
    OperatorHandle,
    OperatorRestore,
    Segment,
    StateMeta,
    StateMode,
    TaskRestore,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "manifests"

KEYED = OperatorHandle(
    "a1",
    0,
    keyed=(Segment("shared/1-0-0-1", 12, 100, 2, 77), Segment("shared/1-0-0-3", 12, 30, 1, 78)),
    lists=Segment("chk-3/1-0-0-3", 42, 8, 1, 79),
    states=(
        StateMeta("count", StateMode.KEYED, "value", "Long", 1),
        StateMeta("\0splits", StateMode.SPLIT, "list"),
    ),
)
EVERYTHING = Manifest(
    job_id="0123456789abcdef0123456789abcdef",
    job_name="Zählung “1”",
    checkpoint_id=3,
    timestamp=1_700_000_000_123,
    kind=CheckpointKind.SAVEPOINT,
    operators=(
        OperatorState("a1", "Count", 2, 128, "count", (KEYED, OperatorHandle("a1", 1))),
        OperatorState("b2", "Source: x", 1, 128, None, (), b"\x00enumerator\xff"),
        OperatorState(
            "c3",
            "Map",
            1,
            128,
            None,
            (OperatorHandle("c3", 0, lists=Segment("", 0, 3, 1, 5, b"\x01\x02\x03")),),
        ),
    ),
    epoch=2,
    root=".",
)


def test_manifest_comes_back():
    assert Manifest.decode(EVERYTHING.encode()) == EVERYTHING
    empty = Manifest("j", "n", 1, 0)
    assert Manifest.decode(empty.encode()) == empty


def test_types_of_what_operators_keep_come_back():
    operator = OperatorState("a1", "Reduce", 2, 128, types={"keys": "String", "records": "Row(f0: String)"})
    assert Manifest.decode(Manifest("j", "n", 1, 0, operators=(operator,)).encode()).operators == (operator,)


def test_golden_manifest_of_version_1():
    golden = (GOLDEN / "written_v1").read_bytes()
    assert Manifest.decode(golden) == EVERYTHING
    assert EVERYTHING.encode() == golden, "the format of version 1 is fixed; a change needs a new version"


def test_golden_manifest_of_version_1_with_something_in_the_fields_that_nobody_reads():
    assert Manifest.decode((GOLDEN / "everything_v1").read_bytes()) == EVERYTHING


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Segment, "file offset length blocks checksum inline"),
        (StateMeta, "name mode kind type version"),
        (OperatorHandle, "operator_id subtask keyed lists states"),
        (OperatorState, "id name parallelism max_parallelism uid subtasks enumerator types"),
        (Manifest, "job_id job_name checkpoint_id timestamp kind operators epoch root"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_field_is_written(kind, fields):
    assert [field.name for field in dataclasses.fields(kind)] == fields.split(), (
        "write the new field to manifests too"
    )


def test_views():
    assert EVERYTHING.enumerators == {"b2": b"\x00enumerator\xff"}
    assert EVERYTHING.files == {"shared/1-0-0-1": 112, "shared/1-0-0-3": 42, "chk-3/1-0-0-3": 50}
    assert [operator.has_state for operator in EVERYTHING.operators] == [True, True, True]
    assert [operator.has_keyed_state for operator in EVERYTHING.operators] == [True, False, False]
    assert [state.name for state in EVERYTHING.operators[0].states] == ["\0splits", "count"]
    assert not OperatorState(
        "x", "x", 1, 1, None, (OperatorHandle("x", 0, (Segment("f", 12, 0, 0, 0),)),)
    ).has_state


def test_to_restore():
    restore = dataclasses.replace(EVERYTHING, operators=EVERYTHING.operators[:1]).to_restore("/base")
    assert restore == TaskRestore(
        3, "/base", {"a1": OperatorRestore(2, 128, (KEYED, OperatorHandle("a1", 1)))}
    )


@pytest.mark.parametrize("data", [b"", b"{}", b"firesteel manifest 1\n{}", EVERYTHING.encode()[1:]], ids=str)
def test_other_bytes_are_refused(data):
    with pytest.raises(
        CorruptStateError, match="some/file, at byte 0: this is not the beginning of a manifest"
    ):
        Manifest.decode(data, "some/file")


def test_bytes_at_the_end_are_refused():
    with pytest.raises(CorruptStateError, match="checksum of the manifest"):
        Manifest.decode(EVERYTHING.encode() + b"\n")


def test_newer_version_is_refused_with_a_sentence(monkeypatch):
    monkeypatch.setattr(manifest_module, "FORMAT_VERSION", 2)
    data = EVERYTHING.encode()
    monkeypatch.undo()
    with pytest.raises(
        StateError, match=r"newer version of Firesteel: the format of its manifest is 2, .* up to 1"
    ) as e:
        Manifest.decode(data)
    assert not isinstance(e.value, CorruptStateError)
