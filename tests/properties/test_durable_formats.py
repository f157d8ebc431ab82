"""Every durable format: a missing or changed byte is noticed before anything is used, and nothing needed is deleted."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from firesteel.checkpoint import blocks, layout
from firesteel.checkpoint.blocks import SegmentWriter, StateFileWriter, file_header, read_segment
from firesteel.checkpoint.manifest import Manifest, OperatorState
from firesteel.checkpoint.repository import JobCheckpoints
from firesteel.checkpoint.state_pickle import dumps, loads
from firesteel.checkpoint.storage import MemoryStorage
from firesteel.checkpoint.stored_checkpoint import verify
from firesteel.common.errors import CorruptStateError
from firesteel.plan.state_handles import CheckpointKind, OperatorHandle, Segment, StateMeta, StateMode

NUMBERS = st.integers(0, 2**40)
NAMES = st.text(max_size=8)
BLOBS = st.binary(max_size=40)

SEGMENTS = st.builds(Segment, NAMES.filter(bool), NUMBERS, NUMBERS, NUMBERS, NUMBERS) | st.builds(
    lambda data: Segment("", 0, len(data), 1, 5, data), BLOBS
)
STATES = st.builds(StateMeta, NAMES, st.sampled_from(StateMode), NAMES, NAMES, st.integers(0, 9))


@st.composite
def operators(draw: st.DrawFn) -> OperatorState:
    id = draw(NAMES)
    handles = [
        OperatorHandle(
            id,
            subtask,
            tuple(draw(st.lists(SEGMENTS, max_size=2))),
            draw(st.none() | SEGMENTS),
            tuple(draw(st.lists(STATES, max_size=2))),
        )
        for subtask in range(draw(st.integers(0, 2)))
    ]
    return OperatorState(
        id,
        draw(NAMES),
        draw(NUMBERS),
        draw(NUMBERS),
        draw(st.none() | NAMES),
        tuple(handles),
        draw(st.none() | BLOBS),
    )


MANIFESTS = st.builds(
    Manifest,
    NAMES,
    NAMES,
    NUMBERS,
    NUMBERS,
    st.sampled_from(CheckpointKind),
    st.lists(operators(), max_size=2).map(tuple),
    NUMBERS,
    st.sampled_from([".", ".."]),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=10,
)


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


# ---- manifests


@given(MANIFESTS)
def test_any_manifest_comes_back(manifest: Manifest) -> None:
    assert Manifest.decode(manifest.encode()) == manifest


@given(MANIFESTS, st.data())
def test_cut_off_manifest_is_noticed(manifest: Manifest, data: st.DataObject) -> None:
    encoded = manifest.encode()
    with pytest.raises(CorruptStateError):
        Manifest.decode(encoded[: data.draw(st.integers(0, len(encoded) - 1))])


@given(MANIFESTS, st.data())
def test_manifest_with_one_changed_bit_is_noticed(manifest: Manifest, data: st.DataObject) -> None:
    encoded = manifest.encode()
    with pytest.raises(CorruptStateError):
        Manifest.decode(flipped(encoded, data.draw(st.integers(0, len(encoded) * 8 - 1))))


def test_every_single_bit_and_every_length_of_a_manifest_matters() -> None:
    encoded = Manifest("j", "n", 1, 0).encode()
    for bit in range(len(encoded) * 8):
        with pytest.raises(CorruptStateError):
            Manifest.decode(flipped(encoded, bit))
    for length in range(len(encoded)):
        with pytest.raises(CorruptStateError):
            Manifest.decode(encoded[:length])


# ---- state files


@dataclass
class WrittenFile:
    """A state file with the values of its segments."""

    content: bytes
    segments: list[Segment]
    values: list[list[object]]


@st.composite
def state_files(draw: st.DrawFn) -> WrittenFile:
    values = draw(st.lists(st.lists(VALUES, max_size=4), min_size=1, max_size=3))
    parts = [file_header()]
    file = StateFileWriter("f", draw(st.booleans()))
    segments = []
    for blocks_of_segment in values:
        writer = file.segment()
        parts += [writer.add(dumps(value)) for value in blocks_of_segment]
        segments.append(writer.finish())
    return WrittenFile(b"".join(parts), segments, values)


def read_values(content: bytes, segment: Segment) -> list[object]:
    return [loads(payload) for payload in read_segment(content, segment)]


@pytest.fixture(params=[None, 7, 64])
def part_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments in one piece, or read in parts of some bytes, as very large ones are."""
    if request.param is not None:
        monkeypatch.setattr(blocks, "_BUFFER_SIZE", request.param)


in_parts = pytest.mark.usefixtures("part_size")


@in_parts
@given(state_files())
def test_any_state_file_comes_back(file: WrittenFile) -> None:
    assert [read_values(file.content, segment) for segment in file.segments] == file.values


@in_parts
@given(state_files(), st.data())
def test_cut_off_segment_hands_out_nothing(file: WrittenFile, data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(file.content) - 1))
    for segment, values in zip(file.segments, file.values, strict=True):
        needed = segment.offset + segment.length if segment.length else blocks.HEADER_LENGTH
        if needed <= end:
            assert read_values(file.content[:end], segment) == values
        else:
            with pytest.raises(CorruptStateError):
                read_segment(file.content[:end], segment)


@in_parts
@given(state_files(), st.data())
def test_segment_with_one_changed_bit_hands_out_nothing(file: WrittenFile, data: st.DataObject) -> None:
    bit = data.draw(st.integers(0, len(file.content) * 8 - 1))
    content = flipped(file.content, bit)
    for segment, values in zip(file.segments, file.values, strict=True):
        if bit // 8 < blocks.HEADER_LENGTH or 0 <= bit // 8 - segment.offset < segment.length:
            with pytest.raises(CorruptStateError):
                read_segment(content, segment)
        else:
            assert read_values(content, segment) == values


@given(st.lists(BLOBS, min_size=1, max_size=4), st.data())
def test_damaged_inline_segment_hands_out_nothing(payloads: list[bytes], data: st.DataObject) -> None:
    writer = SegmentWriter()
    for payload in payloads:
        writer.add(payload)
    segment = writer.finish()
    assert list(read_segment(None, segment)) == payloads
    bit = data.draw(st.integers(0, segment.length * 8 - 1))
    for inline in (flipped(segment.inline, bit), segment.inline[: bit // 8]):
        with pytest.raises(CorruptStateError):
            read_segment(None, replace(segment, inline=inline))


@given(state_files(), st.data())
def test_handle_that_points_elsewhere_hands_out_nothing(file: WrittenFile, data: st.DataObject) -> None:
    segment = data.draw(st.sampled_from(file.segments))
    moved = replace(
        segment,
        offset=data.draw(st.integers(blocks.HEADER_LENGTH, len(file.content))),
        length=data.draw(st.integers(0, len(file.content))),
    )
    start, end = moved.offset, moved.offset + moved.length
    assume(file.content[start:end] != file.content[segment.offset : segment.offset + segment.length])
    with pytest.raises(CorruptStateError):
        read_segment(file.content, moved)


# ---- retention

JOB = "j"


class Crash(Exception):
    """The driver dies."""


class CrashingStorage(MemoryStorage):
    """Counts changes, and dies before the one that it is told to die at."""

    def __init__(
        self, files: dict[str, bytes] | None = None, prefix: str = "", fuse: list[int] | None = None
    ) -> None:
        super().__init__(files, prefix)
        self.fuse = [-1] if fuse is None else fuse

    def at(self, directory: str) -> CrashingStorage:
        return CrashingStorage(self.files, f"{self._prefix}{directory}/", self.fuse)

    def _burn(self) -> None:
        if self.fuse[0] == 0:
            raise Crash
        self.fuse[0] -= 1

    def publish(self, path: str, content: bytes) -> None:
        self._burn()
        super().publish(path, content)

    def delete(self, path: str) -> None:
        self._burn()
        super().delete(path)

    def delete_directory(self, directory: str = "") -> None:
        inside = self._directory(directory)
        for path in sorted(path for path in self.files if path.startswith(inside)):
            self._burn()
            self.files.pop(path, None)


@dataclass
class History:
    """One job over several drivers, with incremental checkpoints of two subtasks."""

    random: random.Random
    retained: int
    storage: CrashingStorage = field(default_factory=CrashingStorage)
    attempt: int = 0

    def __post_init__(self) -> None:
        self.start_driver()

    def start_driver(self) -> None:
        self.attempt += 1
        self.job = JobCheckpoints(self.storage, JOB, "name", self.retained)
        self.job.claim()
        point = self.job.newest_valid(lambda text: None)
        self.chains: list[tuple[Segment, ...]] = [(), ()]
        self.next_id = self.job.next_id()
        if point is not None:
            verify(point, self.job.storage, deep=True)
            self.chains = [handle.keyed for handle in point.manifest.operators[0].subtasks]

    def write(self, id: int) -> Manifest:
        """Both subtasks write: a full segment, or a delta upon what is completed."""
        handles = []
        for subtask, chain in enumerate(self.chains):
            full = not chain or self.random.random() < 0.3
            directory = self.random.choice([layout.SHARED, layout.checkpoint_directory(id)])
            file = layout.state_file(directory, 0, subtask, self.attempt, id)
            output = self.job.storage.create(file)
            writer = StateFileWriter(file).segment()
            output.write(file_header() + writer.add(b"state of %d" % id))
            output.close()
            handles.append(OperatorHandle("op", subtask, (*(() if full else chain), writer.finish())))
        return Manifest(
            JOB, "name", id, 0, operators=(OperatorState("op", "Op", 2, 128, None, tuple(handles)),)
        )

    def checkpoint(self) -> None:
        """Is completed, is aborted, or leaves its files behind."""
        id, self.next_id = self.next_id, self.next_id + 1
        manifest = self.write(id)
        outcome = self.random.random()
        if outcome < 0.15:
            self.job.discard_incomplete(id)
        elif outcome > 0.25:
            self.job.publish(manifest)
            self.chains = [handle.keyed for handle in manifest.operators[0].subtasks]
            self.job.subsume()
            self.check_files()

    def run(self, steps: int) -> None:
        """Go on for some checkpoints; the driver may die anywhere."""
        for _ in range(steps):
            if self.random.random() < 0.5:
                self.storage.fuse[0] = self.random.randrange(25)
            try:
                self.checkpoint()
            except Crash:
                self.storage.fuse[0] = -1
                self.start_driver()
            self.storage.fuse[0] = -1

    def check_files(self) -> None:
        """Right after subsume: what is retained is whole, what nobody refers to is gone."""
        completed = self.job.completed()
        assert 1 <= len(completed) <= self.retained
        referenced = set()
        for id in completed:
            manifest = Manifest.decode(self.job.storage.read(layout.metadata_file(id)))
            referenced |= {f"{JOB}/{file}" for file in manifest.files}
            for segment in manifest.segments:
                read_segment(self.job.storage, segment)
        names = {path: path.rpartition("/")[2] for path in self.storage.files}
        state = {path for path, name in names.items() if (layout.checkpoint_of_file(name) or 0) > 0}
        assert referenced <= state
        newer = {path for path in state if (layout.checkpoint_of_file(names[path]) or 0) > max(completed)}
        assert state - newer == referenced


@given(st.integers(0, 2**32), st.integers(1, 3))
def test_retention_keeps_what_is_needed_and_nothing_else(seed: int, retained: int) -> None:
    history = History(random.Random(seed), retained)
    history.run(12)
    if not history.job.completed():
        return
    history.job.subsume()
    history.check_files()


@given(st.integers(0, 2**32))
def test_recovery_never_loses_a_completed_checkpoint(seed: int) -> None:
    """Whatever dies while old checkpoints are deleted, the newest one can be used."""
    history = History(random.Random(seed), 1)
    newest = 0
    for _ in range(10):
        history.run(1)
        point = history.job.newest_valid(lambda text: None)
        found = 0 if point is None else point.manifest.checkpoint_id
        assert found >= newest
        newest = found


@given(st.integers(0, 2**32), st.data())
def test_any_damaged_file_makes_recovery_fall_back(seed: int, data: st.DataObject) -> None:
    history = History(random.Random(seed), 3)
    history.run(8)
    completed = history.job.completed()
    assume(completed)
    manifests = {id: Manifest.decode(history.job.storage.read(layout.metadata_file(id))) for id in completed}
    used = {file for manifest in manifests.values() for file in manifest.files} | set(
        map(layout.metadata_file, completed)
    )
    path = f"{JOB}/{data.draw(st.sampled_from(sorted(used)))}"
    content = history.storage.files[path]
    bit = data.draw(st.integers(0, len(content) * 8 - 1))
    history.storage.files[path] = data.draw(st.sampled_from([content[: bit // 8], flipped(content, bit)]))
    intact = [
        id
        for id, manifest in manifests.items()
        if path not in {f"{JOB}/{file}" for file in (*manifest.files, layout.metadata_file(id))}
    ]
    assert len(intact) < len(completed)
    warnings: list[str] = []
    point = history.job.newest_valid(warnings.append, deep=True)
    assert (None if point is None else point.manifest.checkpoint_id) == max(intact, default=None)
    assert len(warnings) == len([id for id in completed if id > max(intact, default=0)])
