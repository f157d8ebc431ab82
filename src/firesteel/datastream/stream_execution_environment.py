"""StreamExecutionEnvironment: where a program begins, gets its sources, and is executed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from firesteel.common import options
from firesteel.common._type_variables import TypeVar
from firesteel.common.configuration import Configuration
from firesteel.common.errors import ProgramError
from firesteel.common.job_client import JobClient
from firesteel.common.job_execution_result import JobExecutionResult
from firesteel.common.typeinfo import TypeInformation, Types
from firesteel.common.types import Row
from firesteel.common.watermark_strategy import IngestionTime, WatermarkStrategy
from firesteel.contracts.sink import DriverPart
from firesteel.contracts.source import (
    Boundedness,
    ParallelSourceFunction,
    Source,
    SourceFunction,
    SourceFunctionOfSource,
)
from firesteel.datastream._environment_settings import EnvironmentSettings
from firesteel.datastream._not_yet import refuse_unsupported_options
from firesteel.datastream._other_names import OF_ENVIRONMENTS
from firesteel.datastream._stream import DataStream, Origin, declared_type
from firesteel.datastream._unexecuted import BuiltStreams
from firesteel.datastream._user_functions import (
    check_parts,
    refuse_checkpointed_parts,
    ship_function,
    ship_strategy,
    wrong_argument,
)
from firesteel.datastream.time_characteristic import TimeCharacteristic
from firesteel.graph.names import default_name
from firesteel.graph.stream_graph import Edge, GraphBuilder, StreamGraph
from firesteel.plan.operator_specs import OperatorSpec, SourceSpec
from firesteel.plan.shipped import Shipped

if TYPE_CHECKING:
    from firesteel.connectors.datagen import Generator
    from firesteel.connectors.files.formats import FileFormat
    from firesteel.connectors.files.source import FileProcessingMode
    from firesteel.connectors.rate_limit import RateLimiterStrategy
    from firesteel.jobmaster.job_client import MasterJobClient
    from firesteel.spark.frames.frame_files import WrittenFrame

__all__ = ["StreamExecutionEnvironment"]

T = TypeVar("T", default=Any)

_DEFAULT_JOB_NAME = "Firesteel Streaming Job"


class StreamExecutionEnvironment(EnvironmentSettings):
    """The context of a program: settings, sources, execution.

    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> env.set_parallelism(2).get_parallelism()
    2
    >>> env.from_collection([1, 2, 3]).map(lambda x: x * 2).print()
    DataStreamSink('Print to Std. Out')

    Nothing runs before `execute`, `execute_async` or a stream's ``execute_and_collect``.
    """

    _elsewhere = OF_ENVIRONMENTS

    def __init__(self, configuration: Configuration | None = None) -> None:
        super().__init__(configuration)
        self._graph = GraphBuilder()
        self._built = BuiltStreams()
        self._driver_parts: list[DriverPart] = []
        self._frames: list[WrittenFrame] = []

    # Making one -------------------------------------------------------------------------------------

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """The environment for this program: embedded Spark, or what the client that started it says."""
        return StreamExecutionEnvironment(configuration)

    @staticmethod
    def create_local_environment(
        parallelism: int | None = None, configuration: Configuration | None = None
    ) -> StreamExecutionEnvironment:
        """An environment that runs in this process; not in PyFlink, named as in Java."""
        environment = StreamExecutionEnvironment(configuration)
        environment._set(options.SPARK_MASTER, options.SPARK_MASTER.default)
        return environment if parallelism is None else environment.set_parallelism(parallelism)

    @staticmethod
    def create_remote_environment(
        host: str, port: int | None = None, *python_files: str, configuration: Configuration | None = None
    ) -> StreamExecutionEnvironment:
        """An environment that runs on a Spark cluster, with Python files for its tasks; not in PyFlink.

        >>> env = StreamExecutionEnvironment.create_remote_environment("spark-master", 7077)
        >>> env.get_configuration().get_string("firesteel.spark.master", "")
        'spark://spark-master:7077'

        Instead of host and port, ``host`` may be a whole Spark master URL.
        """
        environment = StreamExecutionEnvironment(configuration)
        environment._set(options.SPARK_MASTER, host if port is None else f"spark://{host}:{port}")
        for path in python_files:
            environment.add_python_file(path)
        return environment

    # Sources ----------------------------------------------------------------------------------------

    @overload
    def from_collection(self, collection: Iterable[T]) -> DataStream[T]: ...

    @overload
    def from_collection(
        self, collection: Iterable[Any], type_info: TypeInformation[T] | None
    ) -> DataStream[T]: ...

    def from_collection(
        self, collection: Iterable[Any], type_info: TypeInformation | None = None
    ) -> DataStream[Any]:
        """A stream of the elements of a list or another iterable, in order, by one subtask.

        Elements are checked and converted to ``type_info`` here, so that a wrong one shows at this line.
        """
        from firesteel.connectors.collection import CollectionSource

        if isinstance(collection, (str, bytes)) or not isinstance(collection, Iterable):
            raise wrong_argument("from_collection()", "a list or another iterable of elements", collection)
        declared = declared_type("from_collection()", type_info)
        converter = None if declared is None else declared.batch_converter()
        values = list(collection)
        source = CollectionSource(values if converter is None else converter(values))
        shipped = Shipped.of(source, "from_collection()", f"collection of {len(values)} elements")
        return self._add_source("Collection Source", shipped, declared, bounded=True, max_subtasks=1)

    @overload
    def from_elements(self, *elements: T) -> DataStream[T]: ...

    @overload
    def from_elements(self, *elements: Any, type_info: TypeInformation[T] | None) -> DataStream[T]: ...

    def from_elements(self, *elements: Any, type_info: TypeInformation | None = None) -> DataStream[Any]:
        """A stream of the elements given; not in PyFlink, named as in Java."""
        if not elements:
            raise ProgramError("from_elements() needs at least one element")
        return self.from_collection(elements, type_info)

    @overload
    def from_source(
        self, source: Source[T], watermark_strategy: WatermarkStrategy[Any], source_name: str
    ) -> DataStream[T]: ...

    @overload
    def from_source(
        self,
        source: Source[Any],
        watermark_strategy: WatermarkStrategy[Any],
        source_name: str,
        type_info: TypeInformation[T] | None,
    ) -> DataStream[T]: ...

    def from_source(
        self,
        source: Source[Any],
        watermark_strategy: WatermarkStrategy[Any],
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """A stream of what a source reads."""
        if not isinstance(source, Source):
            remedy = "use add_source() for a SourceFunction" if isinstance(source, SourceFunction) else ""
            raise wrong_argument("from_source()", "a Source", source, remedy)
        refuse_checkpointed_parts(
            source, "from_source()", "its SourceReader has snapshot_state() and is told of checkpoints"
        )
        check_parts(source, "from_source()")
        strategy = ship_strategy(watermark_strategy, "from_source()")
        if type_info is None and hasattr(source, "get_produced_type"):
            type_info = source.get_produced_type()
        bounded = source.boundedness is Boundedness.BOUNDED
        shipped = Shipped.of(source, "from_source()")
        declared = declared_type("from_source()", type_info)
        own_times = watermark_strategy == WatermarkStrategy.no_watermarks()
        return self._add_source(
            source_name,
            shipped,
            declared,
            bounded,
            source.max_subtasks,
            None if own_times else strategy,
            source.has_enumerator,
            source.decodes,
        )

    @overload
    def add_source(self, source_func: SourceFunction[T], source_name: str | None = None) -> DataStream[T]: ...

    @overload
    def add_source(
        self,
        source_func: SourceFunction[Any],
        source_name: str | None = None,
        *,
        type_info: TypeInformation[T] | None,
    ) -> DataStream[T]: ...

    @overload
    def add_source(
        self, source_func: SourceFunction[Any], source_name: str | None, type_info: TypeInformation[T] | None
    ) -> DataStream[T]: ...

    def add_source(
        self,
        source_func: SourceFunction[Any],
        source_name: str | None = None,
        type_info: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """A stream of what a `SourceFunction` written in Python collects; without a name it has that of its class."""
        if isinstance(source_func, Source):
            raise wrong_argument(
                "add_source()", "a SourceFunction", source_func, "use from_source() for a Source"
            )
        if isinstance(source_func, SourceFunctionOfSource):
            named = type(source_func).__name__ if source_name is None else source_name
            strategy = source_func.watermark_strategy()
            return self.from_source(source_func.as_source(), strategy, named, type_info)
        shipped = ship_function(source_func, "add_source()", SourceFunction)
        is_parallel = isinstance(source_func, ParallelSourceFunction)
        declared = declared_type("add_source()", type_info)
        name = default_name(source_func) if source_name is None else source_name
        return self._add_source(name, shipped, declared, source_func.bounded, None if is_parallel else 1)

    def from_sequence(self, from_number: int, to_number: int) -> DataStream[int]:
        """A stream of whole numbers, both ends included; not in PyFlink, named as in Java."""
        from firesteel.connectors.number_sequence import NumberSequenceSource

        source = NumberSequenceSource(from_number, to_number)
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Sequence Source", Types.LONG())

    def generate_sequence(self, from_number: int, to_number: int) -> DataStream[int]:
        """Older name of `from_sequence`."""
        return self.from_sequence(from_number, to_number)

    def from_data_gen(
        self,
        generator_function: Callable[[int], T] | Generator[T],
        count: int | None = None,
        rate_limiter_strategy: RateLimiterStrategy | None = None,
        source_name: str = "Data Generator",
        type_info: TypeInformation | None = None,
    ) -> DataStream[T]:
        """A stream of ``generator_function(0)``, ``generator_function(1)`` and so on; not in PyFlink."""
        from firesteel.connectors.datagen import DataGeneratorSource

        source = DataGeneratorSource(generator_function, count, rate_limiter_strategy)
        return self.from_source(source, WatermarkStrategy.no_watermarks(), source_name, type_info)

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream[str]:
        """A stream of the lines of a file, or of the files of a directory."""
        from firesteel.connectors.files.formats import TextLineFormat
        from firesteel.connectors.files.paths import is_uri, place
        from firesteel.connectors.files.source import SplitFileSource
        from firesteel.connectors.text_file import TextFileSource

        path = place(file_path, "text files")
        source: Source[str] = (
            # How a store is reached is known only when the job starts, so the files there are looked for then.
            SplitFileSource(TextLineFormat(charset_name), (path,))
            if is_uri(path)
            else TextFileSource(path, charset_name)
        )
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Text File Source", Types.STRING())

    def read_file(
        self,
        file_input_format: FileFormat[T],
        file_path: str,
        watch_type: FileProcessingMode | None = None,
        interval: int = -1,
    ) -> DataStream[T]:
        """A stream of the records of a file, or of the files of a directory; not in PyFlink, named as in Java.

        ``PROCESS_ONCE``, the default, reads what is there. ``PROCESS_CONTINUOUSLY`` looks again every ``interval``
        milliseconds: new files are read, and those whose modification time has changed are read again as a whole.
        """
        from firesteel.connectors.files.formats import FileFormat
        from firesteel.connectors.files.paths import place
        from firesteel.connectors.files.source import FileProcessingMode, SplitFileSource

        if not isinstance(file_input_format, FileFormat):
            remedy = "for example StreamFormat.text_line_format()"
            raise wrong_argument("read_file()", "a StreamFormat or BulkFormat", file_input_format, remedy)
        continuously = watch_type is FileProcessingMode.PROCESS_CONTINUOUSLY
        if continuously and interval < 1:
            raise ProgramError(
                f"read_file() needs an interval of at least 1 ms to look again, got {interval}"
            )
        path = place(file_path, "files")
        seconds = interval / 1000 if continuously else None
        source = SplitFileSource(file_input_format, (path,), seconds, rereads=True)
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "File Source")

    def socket_text_stream(
        self, hostname: str, port: int, delimiter: str = "\n", max_retry: int = 0
    ) -> DataStream[str]:
        """A stream of the lines that a server sends; not replayable, hence at most once. Not in PyFlink."""
        from firesteel.connectors.socket import SocketTextSource

        source = SocketTextSource(hostname, port, delimiter, max_retry)
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Socket Stream", Types.STRING())

    def from_spark(
        self, dataframe: Any, *, records: type[Any] = Row, directory: str | None = None
    ) -> DataStream[Any]:
        """A bounded stream of the rows of a DataFrame of Spark; not in PyFlink.

        ``records`` is what they become: `Row` with the names of the columns, dict, tuple, or a dataclass, ``NamedTuple`` or
        ``TypedDict`` whose fields are the columns. The DataFrame is computed here, once, and its rows are written to files
        that the job reads in parallel. The files go when the program ends, those in a ``directory`` only if its jobs
        have finished: a job that continues in another program finds them there. On a cluster the directory has to be one
        that all machines share.
        """
        from firesteel.spark.frames.frame_files import written_frame

        frame = written_frame(dataframe, directory, records)
        self._frames.append(frame)
        return self.from_source(frame.source, WatermarkStrategy.no_watermarks(), "Spark DataFrame")

    def spark_session(self) -> Any:
        """The SparkSession that jobs of this environment run in; it is started if there is none. Not in PyFlink."""
        from firesteel import launch

        return launch.spark_session(self._job_configuration())

    def create_input(self, input_format: Any, type_info: TypeInformation | None = None) -> DataStream[Any]:
        """A stream of what an input format reads, once: ``AvroInputFormat``, or, not in PyFlink, any format with a path."""
        path, file_format = getattr(input_format, "path", None), getattr(input_format, "file_format", None)
        if path is None or file_format is None:
            remedy = "for other files use from_source() with a FileSource, or read_file()"
            raise wrong_argument("create_input()", "an AvroInputFormat", input_format, remedy)
        from firesteel.connectors.files.paths import place
        from firesteel.connectors.files.source import SplitFileSource

        source = SplitFileSource(file_format, (place(path, "files"),))
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "File Source", type_info)

    def _add_source(
        self,
        name: str,
        shipped: Shipped,
        type_info: TypeInformation | None,
        bounded: bool,
        max_subtasks: int | None,
        strategy: Shipped | None = None,
        enumerated: bool = False,
        decodes: bool = False,
    ) -> DataStream[Any]:
        spec = SourceSpec(shipped, bounded, max_subtasks, strategy, enumerated, decodes)
        settings: dict[str, Any] = {"output_type": type_info}
        if max_subtasks == 1:
            settings.update(parallelism=1, fixed_parallelism=True)
        return DataStream(self, (Origin(self._add_node(name, spec, (), **settings)),), type_info)

    def _add_node(self, name: str, spec: OperatorSpec, inputs: tuple[Edge, ...], **settings: Any) -> int:
        # As in Flink, an operator gets the parallelism that the environment has when it is added.
        if "parallelism" not in settings:
            parallelism = self._config.get_parallelism()
            settings["parallelism"] = parallelism if parallelism > 0 else None
            settings["follows_default"] = True
        self._built.add()
        return self._graph.add(name, spec, inputs, **settings)

    # Execution --------------------------------------------------------------------------------------

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run the program and wait for its end. Ctrl-C cancels the job first."""
        return self._submit(job_name).wait()

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Start the program and return a handle to the running job."""
        return self._submit(job_name)

    def _submit(self, job_name: str | None) -> MasterJobClient:
        from firesteel import launch

        graph = self._graph.build()
        if not graph.nodes:
            raise ProgramError(
                "there is nothing to execute: no operator was added since the last execution; "
                "create a stream first, e.g. env.from_collection([1, 2, 3]).print()"
            )
        if self.get_stream_time_characteristic() is TimeCharacteristic.IngestionTime:
            graph = _with_ingestion_time(graph)
        configuration = self._job_configuration()
        refuse_unsupported_options(configuration)
        name = job_name or configuration.get(options.PIPELINE_NAME) or _DEFAULT_JOB_NAME
        parts, self._driver_parts = tuple(self._driver_parts), []
        try:
            client = launch.submit(graph, configuration, name, self._own_backend(configuration), parts)
        finally:
            self._graph.mark_executed()
            self._built.forget()
        for frame in self._frames:
            frame.used_by(client)
        return client

    def _add_driver_part(self, part: DriverPart | None) -> None:
        if part is not None:
            self._driver_parts.append(part)

    def _job_configuration(self) -> Configuration:
        """Everything the job needs to know, in one configuration."""
        from firesteel import pyflink_alias

        configuration = Configuration(self._configuration)
        configuration.set(options.PARALLELISM_DEFAULT, self.get_parallelism())
        configuration.add_all(self._backend_options(configuration))
        if pyflink_alias.is_installed():
            configuration.set_string(pyflink_alias.OPTION, "true")
        return configuration

    def get_execution_plan(self) -> str:
        """The program as JSON in the shape of Flink's execution plans."""
        from firesteel.graph.render import to_json

        self._built.forget()
        return to_json(self._graph.build(), self.get_parallelism())

    def close(self) -> None:
        """Nothing to release: an environment holds no resources of its own."""


def _with_ingestion_time(graph: StreamGraph) -> StreamGraph:
    """The graph with times of arrival from all sources that have no strategy of their own."""
    strategy = Shipped.of(WatermarkStrategy(IngestionTime()), "IngestionTime")
    return StreamGraph(
        tuple(
            replace(node, spec=replace(node.spec, strategy=strategy))
            if isinstance(node.spec, SourceSpec) and node.spec.strategy is None
            else node
            for node in graph
        )
    )
