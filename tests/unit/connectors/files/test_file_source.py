"""The file source: which files, in which order, by whom; and where reading goes on after a failure."""

from __future__ import annotations

import contextlib
import glob
import gzip
import logging
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from firesteel.common import Duration
from firesteel.common.errors import ProgramError, WrongArgumentError
from firesteel.common.typeinfo import Types
from firesteel.connectors.files import line_blocks, splits
from firesteel.connectors.files.paths import find_files
from firesteel.connectors.files.source import FileEnumerator
from firesteel.contracts.source import Boundedness, SourceReaderContext, SplitEnumeratorContext
from firesteel.datastream.connectors.file_system import (
    FileEnumeratorProvider,
    FileSource,
    FileSplitAssignerProvider,
    StreamFormat,
)

LINES = StreamFormat.text_line_format()


class Desk(SplitEnumeratorContext):
    """The job master's side of an enumerator: asynchronous calls run when the test says so."""

    def __init__(self, parallelism: int = 2) -> None:
        self.parallelism = parallelism
        self.assigned: dict[int, list[Any]] = {n: [] for n in range(parallelism)}
        self.ended: list[int] = []
        self.calls: list[tuple[Callable[[], Any], Callable[[Any, Exception | None], None], float | None]] = []
        self.time = 0.0

    def current_parallelism(self) -> int:
        return self.parallelism

    def registered_readers(self) -> list[int]:
        return list(range(self.parallelism))

    def now(self) -> float:
        return self.time

    def assign_splits(self, assignment: Mapping[int, Sequence[Any]]) -> None:
        for subtask, new in assignment.items():
            self.assigned[subtask] += new

    def signal_no_more_splits(self, subtask: int) -> None:
        self.ended.append(subtask)

    def send_event_to_source_reader(self, subtask: int, event: Any) -> None:
        raise AssertionError("the file source sends no events")

    def call_async(
        self, callable: Any, handler: Any, initial_delay: float = 0.0, interval: float | None = None
    ) -> None:
        self.calls.append((callable, handler, interval))

    def look(self) -> None:
        """Make the calls that are due."""
        for call, handler, _ in list(self.calls):
            try:
                result, error = call(), None
            except Exception as caught:  # noqa: BLE001 - handed to the enumerator, as in a job
                result, error = None, caught
            handler(result, error)


def write(path: Path, text: str, modified: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (modified, modified))


def started(source: FileSource, desk: Desk, state: Any = None) -> FileEnumerator:
    if state is None:
        enumerator = source.create_enumerator(desk)
    else:
        enumerator = source.restore_enumerator(desk, pickle.loads(pickle.dumps(state)))
    assert isinstance(enumerator, FileEnumerator)
    enumerator.start()
    return enumerator


def names(desk: Desk, subtask: int) -> list[str]:
    return [Path(split.path).name for split in desk.assigned[subtask]]


def source_of(*paths: Path) -> FileSource:
    return FileSource.for_record_stream_format(LINES, *map(str, paths)).build()


def test_files_are_handed_out_oldest_first_one_per_request(tmp_path: Path) -> None:
    for name, modified in (("b", 30), ("a", 20), ("below/c", 10), (".hidden", 5), ("_temporary", 5)):
        write(tmp_path / name, "x\n", modified)
    desk = Desk()
    enumerator = started(source_of(tmp_path), desk)
    enumerator.handle_split_request(1)
    assert desk.assigned[1] == []  # it has not looked yet
    desk.look()
    enumerator.handle_split_request(0)
    enumerator.handle_split_request(0)
    assert (names(desk, 1), names(desk, 0)) == (["c"], ["a", "b"])
    enumerator.handle_split_request(1)
    assert desk.ended == [1]


def test_large_files_are_cut_so_that_every_reader_gets_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "MIN_SPLIT_BYTES", 4)
    write(tmp_path / "a", "x" * 100, 1)
    write(tmp_path / "b.gz", "y" * 100, 2)
    desk = Desk(2)
    enumerator = started(source_of(tmp_path), desk)
    desk.look()
    for _ in range(5):
        enumerator.handle_split_request(0)
    assert [(split.start, split.end) for split in desk.assigned[0]] == [(0, 100), (0, float("inf"))]
    builder = FileSource.for_record_stream_format(LINES, str(tmp_path / "a"))
    for provider, pieces in (
        (FileEnumeratorProvider.default_splittable_file_enumerator(), 4),
        (FileEnumeratorProvider.default_non_splittable_file_enumerator(), 1),
    ):
        desk = Desk(4)
        enumerator = started(builder.set_file_enumerator(provider).build(), desk)
        desk.look()
        for _ in range(5):
            enumerator.handle_split_request(0)
        assert len(desk.assigned[0]) == pieces


def test_an_enumerator_that_continues_does_not_look_again(tmp_path: Path) -> None:
    write(tmp_path / "a", "x\n", 1)
    write(tmp_path / "b", "x\n", 2)
    desk = Desk()
    enumerator = started(source_of(tmp_path), desk)
    desk.look()
    enumerator.handle_split_request(0)
    state = enumerator.snapshot_state(1)
    write(tmp_path / "c", "x\n", 3)
    desk = Desk()
    enumerator = started(source_of(tmp_path), desk, state)
    desk.look()
    for _ in range(3):
        enumerator.handle_split_request(0)
    assert names(desk, 0) == ["b"]


def test_one_that_had_not_looked_yet_does(tmp_path: Path) -> None:
    write(tmp_path / "a", "x\n", 1)
    state = started(source_of(tmp_path), Desk()).snapshot_state(1)
    desk = Desk()
    enumerator = started(source_of(tmp_path), desk, state)
    desk.look()
    enumerator.handle_split_request(0)
    assert names(desk, 0) == ["a"]


def continuous(path: Path, rereads: bool = False) -> FileSource:
    return FileSource(LINES, (str(path),), 30.0, rereads=rereads)


def test_continuous_reading_finds_new_files_and_keeps_readers_waiting(tmp_path: Path) -> None:
    write(tmp_path / "a", "x\n", 1)
    desk = Desk()
    enumerator = started(continuous(tmp_path), desk)
    assert desk.calls[0][2] == 30.0
    for subtask in (0, 1, 0):
        enumerator.handle_split_request(subtask)
    desk.look()
    assert (names(desk, 0), names(desk, 1), desk.ended) == (["a"], [], [])
    write(tmp_path / "b", "x\n", 2)
    desk.look()
    desk.look()
    assert (names(desk, 0), names(desk, 1)) == (["a"], ["b"])


@pytest.mark.parametrize(("rereads", "times"), [(False, 1), (True, 2)])
def test_a_file_that_was_touched_is_read_again_when_asked_for(
    tmp_path: Path, rereads: bool, times: int
) -> None:
    write(tmp_path / "a", "x\n", 1)
    desk = Desk()
    enumerator = started(continuous(tmp_path, rereads), desk)
    desk.look()
    state = enumerator.snapshot_state(1)
    write(tmp_path / "a", "x\ny\n", 2)
    enumerator = started(continuous(tmp_path, rereads), desk, state)  # also across a restart
    desk.look()
    for _ in range(3):
        enumerator.handle_split_request(0)
    assert names(desk, 0) == ["a"] * times


def test_files_that_appear_late_with_an_old_time_are_not_missed(tmp_path: Path) -> None:
    write(tmp_path / "new", "x\n", 100)
    desk = Desk()
    enumerator = started(continuous(tmp_path), desk)
    desk.look()
    write(tmp_path / "old", "x\n", 1)
    desk.look()
    for _ in range(2):
        enumerator.handle_split_request(0)
    assert names(desk, 0) == ["new", "old"]


def test_splits_that_come_back_are_handed_out_again(tmp_path: Path) -> None:
    for name in "abc":
        write(tmp_path / name, "x\n", ord(name))
    desk = Desk()
    enumerator = started(source_of(tmp_path), desk)
    desk.look()
    enumerator.handle_split_request(0)
    enumerator.handle_split_request(0)
    enumerator.add_splits_back(desk.assigned.pop(0), 0)
    desk.assigned[0] = []
    for _ in range(3):
        enumerator.handle_split_request(0)
    assert names(desk, 0) == ["a", "b", "c"]


@pytest.mark.parametrize("source", [source_of, continuous])
def test_a_path_that_is_not_there_at_the_start_fails_the_attempt(tmp_path: Path, source: Any) -> None:
    """Not the job: a directory that is away for a moment is there again after a restart."""
    desk = Desk()
    started(source(tmp_path / "nowhere"), desk)
    with pytest.raises(FileNotFoundError, match="there is no file or directory to read from"):
        desk.look()


def test_a_pattern_that_nothing_matches(tmp_path: Path) -> None:
    desk = Desk()
    started(source_of(tmp_path / "*.txt"), desk)
    with pytest.raises(FileNotFoundError, match="no file matches the pattern to read from"):
        desk.look()
    desk = Desk()
    enumerator = started(continuous(tmp_path / "*.txt"), desk)
    desk.look()
    write(tmp_path / "a.txt", "x\n", 1)
    desk.look()
    enumerator.handle_split_request(0)
    assert names(desk, 0) == ["a.txt"]


# Trouble in looking -----------------------------------------------------------------------------------


class Away:
    """A directory that cannot be read, or is not there, for as long as the test wants."""

    def __init__(self, path: Path, manner: str) -> None:
        self._path = path
        self._aside = path.with_name(f".{path.name}")
        self._manner = manner

    def __enter__(self) -> None:
        self._path.rename(self._aside)
        match self._manner:
            case "unreadable":  # for everybody, also for root
                self._path.symlink_to(self._path.name)
            case "empty":  # as a mount point without its volume
                self._path.mkdir()

    def __exit__(self, *_: object) -> None:
        match self._manner:
            case "unreadable":
                self._path.unlink()
            case "empty":
                self._path.rmdir()
        self._aside.rename(self._path)


@pytest.mark.parametrize("rereads", [False, True])
@pytest.mark.parametrize("manner", ["unreadable", "gone", "empty"])
@pytest.mark.parametrize("which", ["in", "in/below"])
def test_files_whose_directory_was_away_are_not_read_again(
    tmp_path: Path, which: str, manner: str, rereads: bool
) -> None:
    write(tmp_path / "in/a", "x\n", 1)
    write(tmp_path / "in/below/b", "x\n", 2)
    desk = Desk()
    enumerator = started(continuous(tmp_path / "in", rereads), desk)
    desk.look()
    with Away(tmp_path / which, manner):
        desk.look()
        state = enumerator.snapshot_state(1)
        enumerator = started(continuous(tmp_path / "in", rereads), desk, state)  # also across a restart
        desk.look()
    write(tmp_path / "in/below/c", "x\n", 3)
    desk.look()
    for _ in range(4):
        enumerator.handle_split_request(0)
    assert names(desk, 0) == ["a", "b", "c"]


def test_what_can_be_read_is_read_meanwhile(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("in/first/a", "in/second/b"):
        write(tmp_path / name, "x\n", 1)
    desk = Desk()
    enumerator = started(continuous(tmp_path / "in"), desk)
    with Away(tmp_path / "in/first", "unreadable"), caplog.at_level(logging.INFO):
        desk.look()
        for _ in range(2):
            enumerator.handle_split_request(0)
        assert names(desk, 0) == ["b"]
        desk.look()
        assert caplog.text.count("could not look everywhere") == 1
        assert f"{tmp_path}/in/first: Too many levels of symbolic links" in caplog.text
        desk.time = 61.0
        desk.look()
        assert caplog.text.count("could not look everywhere") == 2
    with caplog.at_level(logging.INFO):
        desk.look()
    assert "can look everywhere again" in caplog.text
    assert names(desk, 0) == ["b", "a"]


@pytest.mark.parametrize("below", ["", "/below"])
def test_who_looks_only_once_leaves_nothing_out(tmp_path: Path, below: str) -> None:
    write(tmp_path / "in/below/a", "x\n", 1)
    desk = Desk()
    started(source_of(tmp_path / "in"), desk)
    with (
        Away(tmp_path / f"in{below}", "unreadable"),
        pytest.raises(OSError, match="Too many levels of symbolic links"),
    ):
        desk.look()


def test_a_directory_that_somebody_else_may_not_read(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, which can be somebody else for a while")
    write(tmp_path / "in/below/a", "x\n", 1)
    for folder in tmp_path, tmp_path.parent, tmp_path.parent.parent:
        folder.chmod(0o755)
    (tmp_path / "in/below").chmod(0o700)
    os.seteuid(65534)
    try:
        for path in ("in", "in/*", "in/*/*", "in/**/a", "in/below/a", "in/below"):
            with pytest.raises(PermissionError):
                source_of(tmp_path / path).find()
        assert continuous(tmp_path / "in").find().files == []
    finally:
        os.seteuid(0)


PATTERNS = [
    "*",
    "a*",
    "*/*",
    "**",
    "**/a",
    "a/**",
    "*/**/b",
    "[ab]",
    "[ab]/?",
    ".*",
    "**/*b*/*",
    "a/b/*",
    "x*",
]


@settings(max_examples=150, deadline=None)
@example([["a"]], "a/**")
@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "ab", ".a", "_b"]), min_size=1, max_size=4), max_size=8),
    st.sampled_from(PATTERNS),
)
def test_patterns_mean_what_glob_says(
    tmp_path_factory: pytest.TempPathFactory, paths: list[list[str]], pattern: str
) -> None:
    base = tmp_path_factory.mktemp("glob")
    for path in paths:
        file = base.joinpath(*path)
        with contextlib.suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
            write(file, "x", 1)
    (base / "linked").symlink_to(base / "a")
    expected = set()
    for match in glob.glob(str(base / pattern), recursive=True):
        if os.path.isdir(match):
            for folder, folders, files in os.walk(match):
                folders[:] = [name for name in folders if not name.startswith((".", "_"))]
                expected |= {os.path.join(folder, name) for name in files if not name.startswith((".", "_"))}
        elif os.path.lexists(match):  # glob believes that "a/**" matches "a/", whatever there is
            expected.add(match)
    try:
        found = find_files(str(base / pattern))
    except FileNotFoundError:
        found = []
    assert found == sorted(expected)


def test_what_the_builder_makes(tmp_path: Path) -> None:
    builder = FileSource.for_record_stream_format(LINES, str(tmp_path), (tmp_path / "x").as_uri())
    source = builder.set_split_assigner(FileSplitAssignerProvider.locality_aware_split_assigner()).build()
    assert source.paths == (str(tmp_path), str(tmp_path / "x"))
    assert source.boundedness is Boundedness.BOUNDED
    assert source.has_enumerator
    assert source.get_produced_type() == Types.STRING()
    endless = builder.monitor_continuously(Duration.of_seconds(5)).build()
    assert (endless.boundedness, endless.interval) == (Boundedness.CONTINUOUS_UNBOUNDED, 5.0)
    assert builder.process_static_file_set().build() == source


def test_what_the_builder_refuses(tmp_path: Path) -> None:
    with pytest.raises(WrongArgumentError, match=r"StreamFormat.text_line_format\(\)"):
        FileSource.for_record_stream_format("lines", "x")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="at least one path"):
        FileSource.for_record_stream_format(LINES)
    with pytest.raises(ProgramError, match="'ftp://bucket/x'"):
        FileSource.for_record_stream_format(LINES, "ftp://bucket/x")
    with pytest.raises(ProgramError, match="above 0"):
        FileSource.for_record_stream_format(LINES, "x").monitor_continuously(Duration.of_millis(0))


# Reading ----------------------------------------------------------------------------------------------


def reader_of(source: FileSource, requests: list[str]) -> Any:
    return source.create_reader(
        SourceReaderContext(0, 1, lambda: 0.0, lambda: None, lambda: requests.append("?"))
    )


def test_a_reader_asks_for_the_next_split_when_it_begins_with_its_last_one(tmp_path: Path) -> None:
    write(tmp_path / "a", "1\n2\n", 1)
    requests: list[str] = []
    reader = reader_of(source_of(tmp_path), requests)
    assert (reader.poll(10).values, requests) == ([], ["?"])
    reader.poll(10)
    assert requests == ["?"]
    split = splits.FileSplit(str(tmp_path / "a"), 0, 4)
    reader.add_splits([split, split])
    assert reader.poll(1).values == ["1"]
    assert requests == ["?"]
    rest = [value for _ in range(5) for value in reader.poll(10).values]
    assert (rest, requests) == (["2", "1", "2"], ["?", "?"])
    reader.notify_no_more_splits()
    assert reader.poll(10).ended


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.gz"
    path.write_bytes(b"this is no gzip")
    source = FileSource(LINES, (str(path),))
    reader = reader_of(source, [])
    reader.add_splits(list(source.cut(source.find().files, 1)))
    with pytest.raises(gzip.BadGzipFile) as caught:
        reader.poll(10)
    assert str(path) in "".join(caught.value.__notes__)


@settings(max_examples=150, deadline=None)
@given(
    lines=st.lists(st.text(st.sampled_from("aé€ \r"), max_size=9), max_size=15),
    suffix=st.sampled_from(["", ".gz"]),
    charset=st.sampled_from(["UTF-8", "UTF-16"]),
    sizes=st.tuples(st.integers(1, 30), st.integers(1, 30), st.integers(1, 30)),
    limits=st.lists(st.integers(1, 5), min_size=1, max_size=40),
)
def test_lines_go_on_at_any_place_whatever_the_sizes_of_splits_and_blocks(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    suffix: str,
    charset: str,
    sizes: tuple[int, int, int],
    limits: list[int],
) -> None:
    """After every poll the reader dies, and another one goes on with its splits and blocks of another size."""
    lines = [line.rstrip("\r") for line in lines]
    data = "".join(f"{line}\n" for line in lines).encode(charset)
    path = tmp_path_factory.mktemp("lines") / f"a{suffix}"
    path.write_bytes(gzip.compress(data) if suffix else data)
    source = FileSource(StreamFormat.text_line_format(charset), (str(path),))
    seen: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splits, "MIN_SPLIT_BYTES", sizes[0])
        patch.setattr(splits, "MAX_SPLIT_BYTES", sizes[0])
        rest = list(source.cut(source.find().files, 3))
        for turn in range(10_000):
            patch.setattr(line_blocks, "BLOCK_BYTES", sizes[1 + turn % 2])
            reader = reader_of(source, [])
            reader.add_splits(pickle.loads(pickle.dumps(rest)))
            reader.notify_no_more_splits()
            polled = reader.poll(limits[turn % len(limits)])
            seen += polled.values
            rest = reader.snapshot_state(turn)
            reader.close()
            if polled.ended:
                break
    assert seen == lines
