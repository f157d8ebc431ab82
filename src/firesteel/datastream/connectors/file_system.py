"""File sources and sinks, at PyFlink's import path."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Any, Generic, Self

from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.common.errors import ProgramError
from firesteel.common.serialization import BulkWriterFactory, Encoder
from firesteel.common.time import Duration
from firesteel.connectors.files.compactors import (
    ConcatFileCompactor,
    FileCompactor,
    FileCompactStrategy,
    IdenticalFileCompactor,
    OutputStreamBasedFileCompactor,
    RecordWiseFileCompactor,
)
from firesteel.connectors.files.formats import Block, BulkFormat, FileFormat, StreamFormat
from firesteel.connectors.files.paths import place
from firesteel.connectors.files.rolling import (
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from firesteel.connectors.files.sink import BucketAssigner, PartFileSink
from firesteel.connectors.files.source import FileProcessingMode, SplitFileSource
from firesteel.connectors.files.splits import FileSplit
from firesteel.datastream._user_functions import wrong_argument
from firesteel.datastream.connectors.base import StreamTransformer, SupportsPreprocessing

__all__ = [
    "Block",
    "BucketAssigner",
    "BulkFormat",
    "ConcatFileCompactor",
    "DefaultRollingPolicy",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileProcessingMode",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplit",
    "FileSplitAssignerProvider",
    "IdenticalFileCompactor",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "OutputStreamBasedFileCompactor",
    "RecordWiseFileCompactor",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]

T = TypeVar("T", covariant=True, default=Any)
E = TypeVar("E", default=Any)


class FileEnumeratorProvider(enum.Enum):
    """How files are found and cut."""

    SPLITTABLE = "splittable"
    NON_SPLITTABLE = "non-splittable"

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Large files are read by several subtasks, where their format allows it."""
        return FileEnumeratorProvider.SPLITTABLE

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Every file is read by one subtask."""
        return FileEnumeratorProvider.NON_SPLITTABLE


class FileSplitAssignerProvider(enum.Enum):
    """Which subtask gets which piece of a file."""

    ON_REQUEST = "on request"

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """Whoever asks gets the next one; local files are equally far from everybody."""
        return FileSplitAssignerProvider.ON_REQUEST


class FileSource(SplitFileSource[T]):
    """Reads files, once or continuously."""

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat[E], *paths: str) -> FileSourceBuilder[E]:
        """Build a source of the records of files, directories or patterns."""
        if not isinstance(stream_format, StreamFormat):
            remedy = (
                "for example StreamFormat.text_line_format(); for a BulkFormat use for_bulk_file_format()"
            )
            raise wrong_argument("for_record_stream_format()", "a StreamFormat", stream_format, remedy)
        return FileSourceBuilder(stream_format, *paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat[E], *paths: str) -> FileSourceBuilder[E]:
        """Build a source of the records of files, directories or patterns, in a format such as Parquet."""
        if not isinstance(bulk_format, BulkFormat):
            remedy = "for example ParquetColumnarRowInputFormat(row_type); for a StreamFormat use for_record_stream_format()"
            raise wrong_argument("for_bulk_file_format()", "a BulkFormat", bulk_format, remedy)
        return FileSourceBuilder(bulk_format, *paths)


class FileSourceBuilder(Generic[E]):
    """Collects what a `FileSource` reads and how; unless told, the files that are there at the start."""

    def __init__(self, stream_format: FileFormat[E], *paths: str) -> None:
        if not paths:
            raise ProgramError("a file source needs at least one path")
        absolute = tuple(place(path, "file sources") for path in paths)
        self._source = FileSource(stream_format, absolute)

    def monitor_continuously(self, discovery_interval: Duration) -> FileSourceBuilder[E]:
        """Look for new files again and again; a file that was read is not read again when it changes."""
        seconds = discovery_interval.to_seconds()
        if seconds <= 0:
            raise ProgramError(f"the discovery interval must be above 0, got {discovery_interval}")
        self._source = replace(self._source, interval=seconds)
        return self

    def process_static_file_set(self) -> FileSourceBuilder[E]:
        """Read the files that are there at the start, then end."""
        self._source = replace(self._source, interval=None)
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder[E]:
        """Choose whether files are cut."""
        if not isinstance(file_enumerator, FileEnumeratorProvider):
            raise wrong_argument("set_file_enumerator()", "a FileEnumeratorProvider", file_enumerator)
        splits_files = file_enumerator is FileEnumeratorProvider.SPLITTABLE
        self._source = replace(self._source, splits_files=splits_files)
        return self

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder[E]:
        """Choose who reads what; there is one way."""
        if not isinstance(split_assigner, FileSplitAssignerProvider):
            raise wrong_argument("set_split_assigner()", "a FileSplitAssignerProvider", split_assigner)
        return self

    def build(self) -> FileSource[E]:
        """Return the source of what was set so far."""
        return self._source


# Sinks ----------------------------------------------------------------------------------------------


class _SinkBuilder:
    """Builds a file sink step by step."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def with_bucket_check_interval(self, interval: int) -> Self:
        """Choose how often, in milliseconds, to look whether a file is too old."""
        if interval < 1:
            raise ProgramError(f"the bucket check interval must be at least 1 ms, got {interval}")
        self._sink = replace(self._sink, check_interval=interval)
        return self

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
        """Choose the folders that records go to."""
        if not isinstance(bucket_assigner, BucketAssigner):
            raise wrong_argument("with_bucket_assigner()", "a BucketAssigner", bucket_assigner)
        self._sink = replace(self._sink, bucket_assigner=bucket_assigner)
        return self

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
        """Choose the names of part files."""
        if not isinstance(output_file_config, OutputFileConfig):
            raise wrong_argument("with_output_file_config()", "an OutputFileConfig", output_file_config)
        self._sink = replace(self._sink, file_config=output_file_config)
        return self

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
        """Choose when a part file is closed."""
        if not isinstance(rolling_policy, RollingPolicy):
            raise wrong_argument("with_rolling_policy()", "a RollingPolicy", rolling_policy)
        self._sink = replace(self._sink, rolling_policy=rolling_policy)
        return self

    def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> Self:
        """Make larger files of small ones before they are seen; their names begin with ``compacted-``."""
        if not isinstance(strategy, FileCompactStrategy):
            remedy = "for example FileCompactStrategy.builder().enable_compaction_on_checkpoint(5).build()"
            raise wrong_argument("enable_compact()", "a FileCompactStrategy", strategy, remedy)
        if not isinstance(compactor, FileCompactor):
            remedy = "for example FileCompactor.concat_file_compactor()"
            raise wrong_argument("enable_compact()", "a FileCompactor", compactor, remedy)
        if isinstance(compactor, ConcatFileCompactor) and not getattr(
            self._sink.encoder, "concatenates", True
        ):
            raise ProgramError(
                f"files of {type(self._sink.encoder).__name__} cannot be put one behind the other: nothing could read the "
                "result; give enable_compact() a RecordWiseFileCompactor, which reads their records and writes them again"
            )
        self._sink = replace(self._sink, compaction=strategy, compactor=compactor)
        return self

    def disable_compact(self) -> Self:
        """Leave files as they are; those that wait to be compacted since an earlier run are finished as they are."""
        self._sink = replace(self._sink, compaction=None, compactor=None)
        return self


class _BulkSinkBuilder(_SinkBuilder):
    """Builds a file sink for a bulk format, whose files are closed at checkpoints only."""

    @override
    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
        """Choose when a part file is closed: at checkpoints, and at other times if the policy wants it, too."""
        if not isinstance(rolling_policy, OnCheckpointRollingPolicy):
            raise wrong_argument(
                "with_rolling_policy() of a bulk format",
                "an OnCheckpointRollingPolicy",
                rolling_policy,
                "a file of a bulk format can only be read as a whole, so it must be closed at every checkpoint; use "
                "RollingPolicy.on_checkpoint_rolling_policy(), or a subclass of its class that closes files more often",
            )
        return super().with_rolling_policy(rolling_policy)


@dataclass(frozen=True)
class FileSink(PartFileSink, SupportsPreprocessing):
    """Writes files exactly once; at the end of the input all are finished."""

    BaseBuilder = _SinkBuilder

    class RowFormatBuilder(_SinkBuilder):
        """Builds a sink that writes records one by one."""

        def build(self) -> FileSink:
            """Return the sink."""
            sink: FileSink = self._sink
            return sink

    class BulkFormatBuilder(_BulkSinkBuilder):
        """Builds a sink whose format writes many records together."""

        def build(self) -> FileSink:
            """Return the sink."""
            sink: FileSink = self._sink
            return sink

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        """Write records one by one below a path."""
        return FileSink.RowFormatBuilder(_row_sink(FileSink, base_path, encoder))

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> FileSink.BulkFormatBuilder:
        """Write records many at a time below a path, for example with ``ParquetBulkWriters``."""
        return FileSink.BulkFormatBuilder(_bulk_sink(FileSink, base_path, writer_factory))

    @override
    def get_transformer(self) -> StreamTransformer | None:
        """None: the stream is written as it is."""
        return None


@dataclass(frozen=True)
class StreamingFileSink(PartFileSink):
    """The older form: without checkpoints, files stay in progress for ever."""

    ends_files: bool = False

    BaseBuilder = _SinkBuilder

    class DefaultRowFormatBuilder(_SinkBuilder):
        """Builds a sink that writes records one by one."""

        def build(self) -> StreamingFileSink:
            """Return the sink."""
            sink: StreamingFileSink = self._sink
            return sink

    class DefaultBulkFormatBuilder(_BulkSinkBuilder):
        """Builds a sink whose format writes many records together."""

        def build(self) -> StreamingFileSink:
            """Return the sink."""
            sink: StreamingFileSink = self._sink
            return sink

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> StreamingFileSink.DefaultRowFormatBuilder:
        """Write records one by one below a path."""
        return StreamingFileSink.DefaultRowFormatBuilder(_row_sink(StreamingFileSink, base_path, encoder))

    @staticmethod
    def for_bulk_format(
        base_path: str, writer_factory: BulkWriterFactory
    ) -> StreamingFileSink.DefaultBulkFormatBuilder:
        """Write records many at a time below a path, for example with ``ParquetBulkWriters``."""
        sink = _bulk_sink(StreamingFileSink, base_path, writer_factory)
        return StreamingFileSink.DefaultBulkFormatBuilder(sink)


def _row_sink(kind: type[PartFileSink], base_path: str, encoder: Encoder) -> PartFileSink:
    if not isinstance(encoder, Encoder):
        remedy = "for example Encoder.simple_string_encoder()"
        raise wrong_argument("for_row_format()", "an Encoder", encoder, remedy)
    return kind(place(base_path, "file sinks"), encoder)


def _bulk_sink(kind: type[PartFileSink], base_path: str, factory: BulkWriterFactory) -> PartFileSink:
    if not isinstance(factory, BulkWriterFactory):
        remedy = "for example ParquetBulkWriters.for_row_type(Types.ROW_NAMED(names, types))"
        raise wrong_argument("for_bulk_format()", "a BulkWriterFactory", factory, remedy)
    return kind(place(base_path, "file sinks"), factory, rolling_policy=OnCheckpointRollingPolicy())
