"""ExecutionConfig, the settings of a program's execution: a face of the configuration under Flink's older names."""

from __future__ import annotations

from typing import Any

from firesteel.common import options
from firesteel.common._override import override
from firesteel.common.config_options import ConfigOption
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidArgumentError
from firesteel.common.execution_mode import ExecutionMode
from firesteel.common.input_dependency_constraint import InputDependencyConstraint
from firesteel.common.restart_strategy import RestartStrategyConfiguration
from firesteel.common.time import Duration

__all__ = ["ExecutionConfig"]

_MAX_PARALLELISM_LIMIT = 2**15


class ExecutionConfig:
    """Settings of a program's execution, kept in a Configuration that is shared with the environment.

    >>> config = ExecutionConfig()
    >>> config.get_auto_watermark_interval(), config.get_parallelism()
    (200, -1)
    >>> config.set_parallelism(4).get_parallelism()
    4

    The switches about Kryo, Avro and type registration are remembered and have no effect: values are Python
    objects and are pickled.
    """

    #: Stands for "the default parallelism".
    PARALLELISM_DEFAULT = -1
    #: Stands for "unknown, leave it as it is".
    PARALLELISM_UNKNOWN = -2

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration
        self._registered_kryo_types: list[str] = []
        self._registered_pojo_types: list[str] = []
        self._kryo_serializers: dict[str, str] = {}
        self._restart_strategy: RestartStrategyConfiguration | None = None
        self._execution_mode = ExecutionMode.PIPELINED
        self._input_constraint = InputDependencyConstraint.ANY

    def to_configuration(self) -> Configuration:
        """Return the configuration behind this object: the same object, not a copy."""
        return self._configuration

    def _set(self, option: ConfigOption[Any], value: Any) -> ExecutionConfig:
        self._configuration.set(option, value)
        return self

    # Parallelism.

    def get_parallelism(self) -> int:
        """Return the parallelism of operators that set none; PARALLELISM_DEFAULT when nobody chose one."""
        value = self._configuration.get(options.PARALLELISM_DEFAULT)
        return ExecutionConfig.PARALLELISM_DEFAULT if value is None else value

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Set the parallelism of operators that set none; PARALLELISM_DEFAULT goes back to the default."""
        if parallelism == ExecutionConfig.PARALLELISM_UNKNOWN:
            return self
        if parallelism == ExecutionConfig.PARALLELISM_DEFAULT:
            self._configuration.remove_config(options.PARALLELISM_DEFAULT.key)
            return self
        if parallelism < 1:
            raise InvalidArgumentError(
                f"parallelism must be at least 1, or PARALLELISM_DEFAULT (-1), got {parallelism}"
            )
        return self._set(options.PARALLELISM_DEFAULT, parallelism)

    def get_max_parallelism(self) -> int:
        """Return the number of key groups, -1 when it is derived from the parallelism."""
        return self._configuration.get(options.MAX_PARALLELISM)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Set the number of key groups: the upper bound for rescaling with state."""
        if not 1 <= max_parallelism <= _MAX_PARALLELISM_LIMIT:
            raise InvalidArgumentError(
                f"max parallelism must be between 1 and {_MAX_PARALLELISM_LIMIT}, got {max_parallelism}"
            )
        return self._set(options.MAX_PARALLELISM, max_parallelism)

    # Time.

    def get_auto_watermark_interval(self) -> int:
        """Return how often periodic watermarks are made, in milliseconds."""
        return self._configuration.get(options.AUTO_WATERMARK_INTERVAL).to_millis()

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Set how often periodic watermarks are made, in milliseconds; 0: never."""
        return self._set_millis(options.AUTO_WATERMARK_INTERVAL, interval)

    def get_latency_tracking_interval(self) -> int:
        """Return how often sources send latency markers, in milliseconds."""
        return self._configuration.get(options.LATENCY_INTERVAL).to_millis()

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """Set how often sources send latency markers, in milliseconds; 0: never."""
        return self._set_millis(options.LATENCY_INTERVAL, interval)

    def get_task_cancellation_interval(self) -> int:
        """Return the time between interrupts of a task that is slow to cancel, in milliseconds."""
        return self._configuration.get(options.TASK_CANCELLATION_INTERVAL).to_millis()

    def set_task_cancellation_interval(self, interval: int) -> ExecutionConfig:
        """Set the time between interrupts, in milliseconds; without effect, see firesteel.cancel.grace."""
        return self._set_millis(options.TASK_CANCELLATION_INTERVAL, interval)

    def get_task_cancellation_timeout(self) -> int:
        """Return how long a task may take to cancel, in milliseconds."""
        return self._configuration.get(options.TASK_CANCELLATION_TIMEOUT).to_millis()

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        """Set how long a task may take to cancel, in milliseconds; without effect, see firesteel.cancel.grace."""
        return self._set_millis(options.TASK_CANCELLATION_TIMEOUT, timeout)

    def _set_millis(self, option: ConfigOption[Duration], millis: int) -> ExecutionConfig:
        if millis < 0:
            raise InvalidArgumentError(f"'{option.key}' must not be negative, got {millis}")
        return self._set(option, Duration.of_millis(millis))

    # What programs can read.

    def get_global_job_parameters(self) -> dict[str, str]:
        """Return the parameters that every function can read."""
        return self._configuration.get(options.GLOBAL_JOB_PARAMETERS) or {}

    def set_global_job_parameters(self, global_job_parameters_dict: dict[str, Any]) -> ExecutionConfig:
        """Set the parameters that every function can read; values become texts."""
        texts = {key: _text(value) for key, value in global_job_parameters_dict.items()}
        return self._set(options.GLOBAL_JOB_PARAMETERS, texts)

    # Switches.

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """Remember the wish; Python needs no closure cleaner."""
        return self._set(options.CLOSURE_CLEANER_LEVEL, "RECURSIVE")

    def disable_closure_cleaner(self) -> ExecutionConfig:
        """Remember the wish; Python needs no closure cleaner."""
        return self._set(options.CLOSURE_CLEANER_LEVEL, "NONE")

    def is_closure_cleaner_enabled(self) -> bool:
        """Tell what was wished; on by default."""
        return self._configuration.get(options.CLOSURE_CLEANER_LEVEL).upper() != "NONE"

    def enable_object_reuse(self) -> ExecutionConfig:
        """Remember the wish; chained operators always share objects."""
        return self._set(options.OBJECT_REUSE, True)

    def disable_object_reuse(self) -> ExecutionConfig:
        """Remember the wish; chained operators always share objects."""
        return self._set(options.OBJECT_REUSE, False)

    def is_object_reuse_enabled(self) -> bool:
        """Tell what was wished; off by default."""
        return self._configuration.get(options.OBJECT_REUSE)

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """Let operators without a uid get one from the graph."""
        return self._set(options.AUTO_GENERATE_UIDS, True)

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Refuse programs in which an operator has no uid."""
        return self._set(options.AUTO_GENERATE_UIDS, False)

    def has_auto_generated_uids_enabled(self) -> bool:
        """Tell whether operators without a uid get one."""
        return self._configuration.get(options.AUTO_GENERATE_UIDS)

    def is_use_snapshot_compression(self) -> bool:
        """Tell whether full snapshots are compressed."""
        return self._configuration.get(options.CHECKPOINTING_SNAPSHOT_COMPRESSION)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Set whether full snapshots are compressed."""
        return self._set(options.CHECKPOINTING_SNAPSHOT_COMPRESSION, use_snapshot_compression)

    def enable_force_kryo(self) -> ExecutionConfig:
        """Remember the wish; there is no Kryo."""
        return self._set(options.FORCE_KRYO, True)

    def disable_force_kryo(self) -> ExecutionConfig:
        """Remember the wish; there is no Kryo."""
        return self._set(options.FORCE_KRYO, False)

    def is_force_kryo_enabled(self) -> bool:
        """Tell what was wished; off by default."""
        return self._configuration.get(options.FORCE_KRYO)

    def enable_force_avro(self) -> ExecutionConfig:
        """Remember the wish; values are pickled."""
        return self._set(options.FORCE_AVRO, True)

    def disable_force_avro(self) -> ExecutionConfig:
        """Remember the wish; values are pickled."""
        return self._set(options.FORCE_AVRO, False)

    def is_force_avro_enabled(self) -> bool:
        """Tell what was wished; off by default."""
        return self._configuration.get(options.FORCE_AVRO)

    def enable_generic_types(self) -> ExecutionConfig:
        """Remember the wish; any Python object may flow."""
        return self._set(options.GENERIC_TYPES, True)

    def disable_generic_types(self) -> ExecutionConfig:
        """Remember the wish; any Python object may flow."""
        return self._set(options.GENERIC_TYPES, False)

    def has_generic_types_disabled(self) -> bool:
        """Tell what was wished; not disabled by default."""
        return not self._configuration.get(options.GENERIC_TYPES)

    # Java's type registration: remembered only.

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """Return what `add_default_kryo_serializer` was given."""
        return dict(self._kryo_serializers)

    def get_registered_kryo_types(self) -> list[str]:
        """Return what `register_kryo_type` was given."""
        return list(self._registered_kryo_types)

    def get_registered_pojo_types(self) -> list[str]:
        """Return what `register_pojo_type` was given."""
        return list(self._registered_pojo_types)

    # Flink 1.x.

    def set_restart_strategy(self, restart_strategy: RestartStrategyConfiguration) -> ExecutionConfig:
        """Choose when a failed job starts again (Flink 1.x; now the options restart-strategy.*)."""
        self._restart_strategy = restart_strategy
        self._configuration.add_all(restart_strategy.to_configuration())
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration | None:
        """Return what `set_restart_strategy` was given."""
        return self._restart_strategy

    def set_execution_mode(self, execution_mode: ExecutionMode) -> ExecutionConfig:
        """Remember the mode (Flink 1.x); without effect."""
        self._execution_mode = execution_mode
        return self

    def get_execution_mode(self) -> ExecutionMode:
        """Return what `set_execution_mode` was given."""
        return self._execution_mode

    def set_default_input_dependency_constraint(
        self, constraint: InputDependencyConstraint
    ) -> ExecutionConfig:
        """Remember the constraint (Flink 1.x); without effect."""
        self._input_constraint = constraint
        return self

    def get_default_input_dependency_constraint(self) -> InputDependencyConstraint:
        """Return what `set_default_input_dependency_constraint` was given."""
        return self._input_constraint

    def register_kryo_type(self, type_class_name: str) -> ExecutionConfig:
        """Remember the Java class (Flink 1.x); without effect."""
        self._registered_kryo_types.append(type_class_name)
        return self

    def register_pojo_type(self, type_class_name: str) -> ExecutionConfig:
        """Remember the Java class (Flink 1.x); without effect."""
        self._registered_pojo_types.append(type_class_name)
        return self

    def add_default_kryo_serializer(
        self, type_class_name: str, serializer_class_name: str
    ) -> ExecutionConfig:
        """Remember the Java classes (Flink 1.x); without effect."""
        self._kryo_serializers[type_class_name] = serializer_class_name
        return self

    def register_type_with_kryo_serializer(
        self, type_class_name: str, serializer_class_name: str
    ) -> ExecutionConfig:
        """Remember the Java classes (Flink 1.x); without effect."""
        return self.add_default_kryo_serializer(type_class_name, serializer_class_name)

    def enable_auto_type_registration(self) -> ExecutionConfig:
        """Accept the wish (Flink 1.x); without effect."""
        return self

    def disable_auto_type_registration(self) -> ExecutionConfig:
        """Accept the wish (Flink 1.x); without effect."""
        return self

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._configuration == other._configuration

    @override
    def __hash__(self) -> int:
        return hash(self._configuration)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
