"""Files as a stream: found by an enumerator in the job master, once or again and again, and read by all subtasks.

Splits are handed out oldest file first, one at a time, to whoever asks: so a directory of files is read in the
order of their modification times as far as several readers can have an order at all.
"""

from __future__ import annotations

import enum
import logging
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.common.typeinfo import TypeInformation
from firesteel.connectors.files.file_system import list_files
from firesteel.connectors.files.formats import FileFormat
from firesteel.connectors.files.paths import FoundFile, NothingYet, is_pattern, is_uri, raise_trouble
from firesteel.connectors.files.reader import FileReader
from firesteel.connectors.files.splits import MAX_SPLIT_BYTES, FileSplit, cut, split_size
from firesteel.contracts.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)

T = TypeVar("T", covariant=True, default=Any)

#: While looking does not work for the same reason, this is said so often.
WARNING_SECONDS = 60.0

_LOG = logging.getLogger(__name__)


class FileProcessingMode(enum.Enum):
    """Whether a path is looked at once or again and again."""

    PROCESS_ONCE = "once"
    PROCESS_CONTINUOUSLY = "continuously"


@dataclass(frozen=True)
class SplitFileSource(Source[T]):
    """Reads what absolute ``paths`` mean. Made by `FileSource.for_record_stream_format` of the public API.

    Without ``interval`` (in seconds) the files that are there at the start are read, and the input ends. With it
    the paths are looked at again and again: new files are read, and with ``rereads`` those whose modification time
    has changed are read again from the beginning. Files should be moved in when they are complete. Whatever was seen
    once stays seen, also while it cannot be found, and a look that does not work is repeated at the next interval.
    """

    stream_format: FileFormat[T]
    paths: tuple[str, ...]
    interval: float | None = None
    splits_files: bool = True
    rereads: bool = False

    @property
    @override
    def boundedness(self) -> Boundedness:
        """Unbounded when new files are looked for."""
        return Boundedness.BOUNDED if self.interval is None else Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """What the format says."""
        return self.stream_format.get_produced_type()

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        """The reader of one subtask."""
        return FileReader(self.stream_format, context)

    @override
    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        """The enumerator, which has seen nothing yet."""
        return FileEnumerator(self, context)

    @override
    def restore_enumerator(
        self, context: SplitEnumeratorContext, state: FileEnumeratorState
    ) -> SplitEnumerator:
        """The enumerator, which knows what it has seen."""
        return FileEnumerator(self, context, state)

    def find(self) -> Look:
        """The files there are, oldest first. Who looks only once gets everything, or an error."""
        troubles: list[OSError] = []
        trouble = raise_trouble if self.interval is None else troubles.append
        files: dict[str, FoundFile] = {}
        for path in self.paths:
            try:
                files.update((file.path, file) for file in list_files(path, trouble))
            except FileNotFoundError as error:
                may_come = isinstance(error, NothingYet) or (is_pattern(path) and not is_uri(path))
                if self.interval is None or not may_come:
                    trouble(error)
        return Look(sorted(files.values(), key=lambda file: (file.modified, file.path)), tuple(troubles))

    def cut(self, files: Sequence[FoundFile], parallelism: int) -> Iterable[FileSplit]:
        """The splits of files, in order."""
        total = sum(file.size for file in files)
        size = MAX_SPLIT_BYTES if self.interval is not None else split_size(total, parallelism)
        for file in files:
            splittable = self.splits_files and self.stream_format.is_splittable(file.path)
            yield from cut(file, size, splittable)


@dataclass(frozen=True, slots=True)
class Look:
    """What was found, oldest first, and where looking did not work."""

    files: list[FoundFile]
    troubles: tuple[OSError, ...] = ()


@dataclass(frozen=True, slots=True)
class FileEnumeratorState:
    """Splits that nobody reads yet, and the modification times of all files ever seen. ``scanned``: at least once."""

    splits: tuple[FileSplit, ...] = ()
    seen: Mapping[str, int] = field(default_factory=dict)
    scanned: bool = False


class FileEnumerator(SplitEnumerator):
    """Finds files, cuts them into splits and hands these out on request."""

    def __init__(
        self,
        source: SplitFileSource,
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
        self._unreadable: list[str] = []  # where the last look did not work
        self._warned_at = -math.inf

    @override
    def start(self) -> None:
        """Look for files; what a job that continues has seen is not looked for again."""
        if self._source.interval is not None or not self._scanned:
            self._context.call_async(self._source.find, self._on_files_found, 0.0, self._source.interval)

    def _on_files_found(self, look: Look | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        assert look is not None
        self._warn_about(look.troubles)
        new = [file for file in look.files if self._is_new(file)]
        self._splits.extend(self._source.cut(new, self._context.current_parallelism()))
        # Nothing is ever forgotten: a directory that is away for a while has no files, and comes back with all of them.
        self._seen.update((file.path, file.modified) for file in new)
        self._scanned = True
        self._hand_out()

    def _warn_about(self, troubles: Sequence[OSError]) -> None:
        """Warn, but not at every look; fail when a path has never been there, which it should at the start."""
        if not self._scanned:
            for trouble in troubles:
                if isinstance(trouble, FileNotFoundError):
                    raise trouble
        now = self._context.now()
        unreadable = [f"{trouble.filename}: {trouble.strerror}" for trouble in troubles]
        is_news = unreadable != self._unreadable or not 0 <= now - self._warned_at < WARNING_SECONDS
        if unreadable and is_news:
            self._warned_at = now
            _LOG.warning(
                "the file source could not look everywhere, and will try again in %g s; files there are not read until "
                "it can: %s%s",
                self._source.interval,
                ", ".join(unreadable[:5]),
                f" and {len(unreadable) - 5} more" if len(unreadable) > 5 else "",
            )
        elif self._unreadable and not unreadable:
            _LOG.info("the file source can look everywhere again")
        self._unreadable = unreadable

    def _is_new(self, file: FoundFile) -> bool:
        seen = self._seen.get(file.path)
        return seen is None or (self._source.rereads and seen != file.modified)

    @override
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

    @override
    def add_splits_back(self, splits: Sequence[Any], subtask: int) -> None:
        """These come first again; what the reader asked for before it failed is forgotten."""
        self._asking = deque(asking for asking in self._asking if asking != subtask)
        self._splits.extendleft(reversed(splits))
        self._hand_out()

    @override
    def snapshot_state(self, checkpoint_id: int) -> FileEnumeratorState:
        return FileEnumeratorState(tuple(self._splits), dict(self._seen), self._scanned)
