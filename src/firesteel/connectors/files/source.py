"""Files as a stream: found by an enumerator in the job master, once or again and again, and read by all subtasks.

Splits are handed out oldest file first, one at a time, to whoever asks: so a directory of files is read in the
order of their modification times as far as several readers can have an order at all.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firesteel.common.typeinfo import TypeInformation
from firesteel.connectors.files.formats import StreamFormat
from firesteel.connectors.files.paths import FoundFile, find_files, look_at
from firesteel.connectors.files.reader import FileReader
from firesteel.connectors.files.splits import MAX_SPLIT_BYTES, FileSplit, cut, split_size
from firesteel.contracts.source import (
    Boundedness,
    Source,
    SourceContext,
    SourceReader,
    SplitEnumerator,
    SplitEnumeratorContext,
)


class FileProcessingMode(enum.Enum):
    """Whether a path is looked at once or again and again."""

    PROCESS_ONCE = "once"
    PROCESS_CONTINUOUSLY = "continuously"


@dataclass(frozen=True)
class FileSource(Source):
    """Reads what absolute ``paths`` mean. Made by `FileSource.for_record_stream_format` of the public API.

    Without ``interval`` (in seconds) the files that are there at the start are read, and the input ends. With it
    the paths are looked at again and again: new files are read, and with ``rereads`` those whose modification time
    has changed are read again from the beginning. Files should be moved in when they are complete.
    """

    stream_format: StreamFormat
    paths: tuple[str, ...]
    interval: float | None = None
    splits_files: bool = True
    rereads: bool = False

    @property
    def boundedness(self) -> Boundedness:
        """Unbounded when new files are looked for."""
        return Boundedness.BOUNDED if self.interval is None else Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """What the format says."""
        return self.stream_format.get_produced_type()

    def create_reader(self, context: SourceContext) -> SourceReader:
        """The reader of one subtask."""
        return FileReader(self.stream_format, context)

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        """The enumerator, which has seen nothing yet."""
        return FileEnumerator(self, context)

    def restore_enumerator(
        self, context: SplitEnumeratorContext, state: FileEnumeratorState
    ) -> SplitEnumerator:
        """The enumerator, which knows what it has seen."""
        return FileEnumerator(self, context, state)

    def find(self) -> list[FoundFile]:
        """The files there are, oldest first."""
        return look_at(list(dict.fromkeys(name for path in self.paths for name in find_files(path))))

    def cut(self, files: Sequence[FoundFile], parallelism: int) -> Iterable[FileSplit]:
        """The splits of files, in order."""
        total = sum(file.size for file in files)
        size = MAX_SPLIT_BYTES if self.interval is not None else split_size(total, parallelism)
        for file in files:
            splittable = self.splits_files and self.stream_format.is_splittable(file.path)
            yield from cut(file, size, splittable)


@dataclass(frozen=True, slots=True)
class FileEnumeratorState:
    """Splits that nobody reads yet, and the modification times of all files seen. ``scanned``: at least once."""

    splits: tuple[FileSplit, ...] = ()
    seen: Mapping[str, int] = field(default_factory=dict)
    scanned: bool = False


class FileEnumerator(SplitEnumerator):
    """Finds files, cuts them into splits and hands these out on request."""

    def __init__(
        self,
        source: FileSource,
        context: SplitEnumeratorContext,
        state: FileEnumeratorState | None = None,
    ) -> None:
        state = FileEnumeratorState() if state is None else state
        self._source = source
        self._context = context
        self._splits = deque(state.splits)
        self._seen = dict(state.seen)
        self._scanned = state.scanned
        self._asking: deque[int] = deque()

    def start(self) -> None:
        """Look for files; what a job that continues has seen is not looked for again."""
        if self._source.interval is not None or not self._scanned:
            self._context.call_async(self._source.find, self._found, 0.0, self._source.interval)

    def _found(self, files: list[FoundFile] | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        files = files or []
        new = [file for file in files if self._is_new(file)]
        self._splits.extend(self._source.cut(new, self._context.current_parallelism()))
        self._seen = {file.path: file.modified for file in files}
        self._scanned = True
        self._hand_out()

    def _is_new(self, file: FoundFile) -> bool:
        seen = self._seen.get(file.path)
        return seen is None or (self._source.rereads and seen != file.modified)

    def handle_split_request(self, subtask: int) -> None:
        """Hand out the next split, now or when there is one."""
        self._asking.append(subtask)
        self._hand_out()

    def _hand_out(self) -> None:
        while self._asking and self._splits:
            self._context.assign_split(self._splits.popleft(), self._asking.popleft())
        if self._scanned and self._source.interval is None:
            while self._asking:
                self._context.signal_no_more_splits(self._asking.popleft())

    def add_splits_back(self, splits: Sequence[Any], subtask: int) -> None:
        """These come first again; what the reader asked for before it failed is forgotten."""
        self._asking = deque(asking for asking in self._asking if asking != subtask)
        self._splits.extendleft(reversed(splits))
        self._hand_out()

    def snapshot_state(self, checkpoint_id: int) -> FileEnumeratorState:
        """All that is known."""
        return FileEnumeratorState(tuple(self._splits), dict(self._seen), self._scanned)
