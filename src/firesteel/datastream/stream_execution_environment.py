"""StreamExecutionEnvironment: where a program begins, gets its sources, and is executed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from firesteel.common import options
from firesteel.common.configuration import Configuration
from firesteel.common.errors import ProgramError
from firesteel.common.job_client import JobClient
from firesteel.common.job_execution_result import JobExecutionResult
from firesteel.common.typeinfo import TypeInformation, Types
from firesteel.common.watermark_strategy import IngestionTime, WatermarkStrategy
from firesteel.contracts.source import Boundedness, ParallelSourceFunction, Source, SourceFunction
from firesteel.datastream.environment_settings import EnvironmentSettings
from firesteel.datastream.not_yet import not_yet, refuse_unsupported_options
from firesteel.datastream.stream import DataStream, Origin, declared_type
from firesteel.datastream.time_characteristic import TimeCharacteristic
from firesteel.datastream.user_functions import (
    refuse_checkpointed_parts,
    ship_function,
    ship_strategy,
    wrong_argument,
)
from firesteel.graph.stream_graph import Edge, GraphBuilder, StreamGraph
from firesteel.plan.operator_specs import OperatorSpec, SourceSpec
from firesteel.plan.shipped import Shipped

if TYPE_CHECKING:
    from firesteel.connectors.files.formats import StreamFormat
    from firesteel.connectors.files.source import FileProcessingMode
    from firesteel.connectors.rate_limit import RateLimiterStrategy
    from firesteel.jobmaster.job_client import MasterJobClient

__all__ = ["StreamExecutionEnvironment"]

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

    def __init__(self, configuration: Configuration | None = None) -> None:
        super().__init__(configuration)
        self._graph = GraphBuilder()

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

    def from_collection(
        self, collection: Iterable[Any], type_info: TypeInformation | None = None
    ) -> DataStream:
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
        shipped = replace(
            Shipped.of(source, "from_collection()"), description=f"collection of {len(values)} elements"
        )
        return self._add_source("Collection Source", shipped, declared, bounded=True, max_subtasks=1)

    def from_elements(self, *elements: Any, type_info: TypeInformation | None = None) -> DataStream:
        """A stream of the elements given; not in PyFlink, named as in Java."""
        if not elements:
            raise ProgramError("from_elements() needs at least one element")
        return self.from_collection(elements, type_info)

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """A stream of what a source reads."""
        if not isinstance(source, Source):
            remedy = "use add_source() for a SourceFunction" if isinstance(source, SourceFunction) else ""
            raise wrong_argument("from_source()", "a Source", source, remedy)
        refuse_checkpointed_parts(
            source, "from_source()", "its SourceReader has snapshot_state() and is told of checkpoints"
        )
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
        )

    def add_source(
        self,
        source_func: SourceFunction,
        source_name: str = "Custom Source",
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """A stream of what a `SourceFunction` written in Python collects."""
        if isinstance(source_func, Source):
            raise wrong_argument(
                "add_source()", "a SourceFunction", source_func, "use from_source() for a Source"
            )
        shipped = ship_function(source_func, "add_source()", SourceFunction)
        is_parallel = isinstance(source_func, ParallelSourceFunction)
        declared = declared_type("add_source()", type_info)
        return self._add_source(
            source_name, shipped, declared, source_func.bounded, None if is_parallel else 1
        )

    def from_sequence(self, from_number: int, to_number: int) -> DataStream:
        """A stream of whole numbers, both ends included; not in PyFlink, named as in Java."""
        from firesteel.connectors.number_sequence import NumberSequenceSource

        source = NumberSequenceSource(from_number, to_number)
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Sequence Source", Types.LONG())

    def generate_sequence(self, from_number: int, to_number: int) -> DataStream:
        """Older name of `from_sequence`."""
        return self.from_sequence(from_number, to_number)

    def from_data_gen(
        self,
        generator_function: Any,
        count: int | None = None,
        rate_limiter_strategy: RateLimiterStrategy | None = None,
        source_name: str = "Data Generator",
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """A stream of ``generator_function(0)``, ``generator_function(1)`` and so on; not in PyFlink."""
        from firesteel.connectors.datagen import DataGeneratorSource

        source = DataGeneratorSource(generator_function, count, rate_limiter_strategy)
        return self.from_source(source, WatermarkStrategy.no_watermarks(), source_name, type_info)

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream:
        """A stream of the lines of a file, or of the files of a directory."""
        from firesteel.connectors.text_file import TextFileSource

        source = TextFileSource(file_path, charset_name)
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Text File Source", Types.STRING())

    def read_file(
        self,
        file_input_format: StreamFormat,
        file_path: str,
        watch_type: FileProcessingMode | None = None,
        interval: int = -1,
    ) -> DataStream:
        """A stream of the records of a file, or of the files of a directory; not in PyFlink, named as in Java.

        ``PROCESS_ONCE``, the default, reads what is there. ``PROCESS_CONTINUOUSLY`` looks again every ``interval``
        milliseconds: new files are read, and those whose modification time has changed are read again as a whole.
        """
        from firesteel.connectors.files.formats import StreamFormat
        from firesteel.connectors.files.paths import local_path
        from firesteel.connectors.files.source import FileProcessingMode, FileSource

        if not isinstance(file_input_format, StreamFormat):
            remedy = "for example StreamFormat.text_line_format()"
            raise wrong_argument("read_file()", "a StreamFormat", file_input_format, remedy)
        continuously = watch_type is FileProcessingMode.PROCESS_CONTINUOUSLY
        if continuously and interval < 1:
            raise ProgramError(
                f"read_file() needs an interval of at least 1 ms to look again, got {interval}"
            )
        path = local_path(file_path, "files")
        seconds = interval / 1000 if continuously else None
        source = FileSource(file_input_format, (path,), seconds, rereads=True)
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "File Source")

    def socket_text_stream(
        self, hostname: str, port: int, delimiter: str = "\n", max_retry: int = 0
    ) -> DataStream:
        """A stream of the lines that a server sends; not replayable, hence at most once. Not in PyFlink."""
        from firesteel.connectors.socket import SocketTextSource

        source = SocketTextSource(hostname, port, delimiter, max_retry)
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Socket Stream", Types.STRING())

    def create_input(self, input_format: Any, type_info: TypeInformation | None = None) -> DataStream:
        """A stream of what a Java input format reads."""
        raise not_yet("create_input()", "input formats are")

    def _add_source(
        self,
        name: str,
        shipped: Shipped,
        type_info: TypeInformation | None,
        bounded: bool,
        max_subtasks: int | None,
        strategy: Shipped | None = None,
        enumerated: bool = False,
    ) -> DataStream:
        spec = SourceSpec(shipped, bounded, max_subtasks, strategy, enumerated)
        settings: dict[str, Any] = {"output_type": type_info}
        if max_subtasks == 1:
            settings.update(parallelism=1, fixed_parallelism=True)
        return DataStream(self, (Origin(self._add_node(name, spec, (), **settings)),), type_info)

    def _add_node(self, name: str, spec: OperatorSpec, inputs: tuple[Edge, ...], **settings: Any) -> int:
        # As in Flink, an operator gets the parallelism that the environment has when it is added.
        if "parallelism" not in settings:
            parallelism = self._config.get_parallelism()
            settings["parallelism"] = parallelism if parallelism > 0 else None
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
        try:
            return launch.submit(graph, configuration, name, self._own_backend(configuration))
        finally:
            self._graph.mark_executed()

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
