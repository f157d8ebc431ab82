"""The settings of an execution environment: Flink's getters and setters over one Configuration."""

from __future__ import annotations

import json
import os
from typing import Any, TypeVar

from firesteel.common import options
from firesteel.common._did_you_mean import SuggestsNames
from firesteel.common.config_options import ConfigOption
from firesteel.common.configuration import Configuration
from firesteel.common.errors import ProgramError
from firesteel.common.execution_config import ExecutionConfig
from firesteel.common.restart_strategy import RestartStrategyConfiguration
from firesteel.common.time import Duration
from firesteel.contracts.state_backend import has_store
from firesteel.datastream._given_options import checked, client_options, configured_options
from firesteel.datastream._operator_settings import check_parallelism
from firesteel.datastream._user_functions import wrong_argument
from firesteel.datastream.checkpoint_config import CheckpointConfig
from firesteel.datastream.checkpointing_mode import CheckpointingMode
from firesteel.datastream.execution_mode import RuntimeExecutionMode
from firesteel.datastream.slot_sharing_group import SlotSharingGroup
from firesteel.datastream.state_backend import CustomStateBackend, StateBackend
from firesteel.datastream.time_characteristic import TimeCharacteristic
from firesteel.plan.shipped import Shipped

__all__ = ["EnvironmentSettings"]

E = TypeVar("E", bound="EnvironmentSettings")


def _available_cores() -> int:
    """The processors this process may use: a container often has fewer than the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class EnvironmentSettings(SuggestsNames):
    """What holds for all operators of a program that do not say otherwise."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._client = client_options()
        self._configuration = configured_options()
        if configuration is not None:
            self._configuration.add_all(checked(configuration))
        self._configuration.add_all(self._client)
        self._config = ExecutionConfig(self._configuration)
        self._checkpoint_config = CheckpointConfig(self._configuration)
        self._slot_sharing_groups: dict[str, SlotSharingGroup] = {}
        self._default_local_parallelism = _available_cores()
        self._state_backend: StateBackend | None = None
        self._shipped_backend: Shipped | None = None  # when it is the user's own
        self._time_characteristic = TimeCharacteristic.EventTime

    def get_config(self) -> ExecutionConfig:
        """The execution settings; changing them changes the environment."""
        return self._config

    def get_configuration(self) -> Configuration:
        """The options as set so far; a copy, not in PyFlink."""
        return Configuration(self._configuration)

    def configure(self, configuration: Configuration) -> None:
        """Take over options; what the client that started the program asked for stays."""
        if not isinstance(configuration, Configuration):
            raise wrong_argument("configure()", "a Configuration", configuration)
        self._configuration.add_all(checked(configuration)).add_all(self._client)

    def _set(self, option: ConfigOption[Any], value: Any) -> None:
        self._configuration.set(option, value)

    # Parallelism ------------------------------------------------------------------------------------

    def set_parallelism(self: E, parallelism: int) -> E:
        """Set the parallelism of operators added from now on that set none themselves."""
        if parallelism != ExecutionConfig.PARALLELISM_DEFAULT:
            check_parallelism("set_parallelism()", parallelism)
        self._config.set_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """The parallelism of operators that set none themselves; the number of processors by default."""
        parallelism = self._config.get_parallelism()
        return self._default_local_parallelism if parallelism < 1 else parallelism

    def set_max_parallelism(self: E, max_parallelism: int) -> E:
        """Set the number of key groups of operators that set none themselves."""
        check_parallelism("set_max_parallelism()", max_parallelism)
        self._config.set_max_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """The number of key groups; -1 when it is derived from the parallelism."""
        return self._config.get_max_parallelism()

    def get_default_local_parallelism(self) -> int:
        """The parallelism when nobody sets one."""
        return self._default_local_parallelism

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Set the parallelism when nobody sets one."""
        check_parallelism("set_default_local_parallelism()", parallelism)
        self._default_local_parallelism = parallelism

    def register_slot_sharing_group(self: E, slot_sharing_group: SlotSharingGroup) -> E:
        """Make the resources of a slot sharing group known."""
        self._slot_sharing_groups[slot_sharing_group.get_name()] = slot_sharing_group
        return self

    # Execution --------------------------------------------------------------------------------------

    def set_runtime_mode(self: E, execution_mode: RuntimeExecutionMode) -> E:
        """Run as a stream, as a batch, or as the sources allow."""
        if not isinstance(execution_mode, RuntimeExecutionMode):
            raise wrong_argument("set_runtime_mode()", "a RuntimeExecutionMode", execution_mode)
        self._set(options.RUNTIME_MODE, execution_mode.name)
        return self

    def set_buffer_timeout(self: E, timeout_millis: int) -> E:
        """Set how long a record may wait for its chunk to fill; 0 for not at all, -1 for as long as it takes."""
        if isinstance(timeout_millis, bool) or not isinstance(timeout_millis, int) or timeout_millis < -1:
            raise wrong_argument("set_buffer_timeout()", "milliseconds, 0 or -1", timeout_millis)
        self._set(options.BUFFER_TIMEOUT_ENABLED, timeout_millis >= 0)
        if timeout_millis >= 0:
            self._set(options.BUFFER_TIMEOUT, Duration.of_millis(timeout_millis))
        return self

    def get_buffer_timeout(self) -> int:
        """How long a record may wait, in milliseconds; -1 for as long as it takes."""
        if not self._configuration.get(options.BUFFER_TIMEOUT_ENABLED):
            return -1
        return self._configuration.get(options.BUFFER_TIMEOUT).to_millis()

    def disable_operator_chaining(self: E) -> E:
        """Never let operators call each other directly."""
        self._set(options.OPERATOR_CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Whether operators may call each other directly."""
        return self._configuration.get(options.OPERATOR_CHAINING)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Whether this holds also for operators with different numbers of key groups."""
        return self._configuration.get(options.CHAIN_DIFFERENT_MAX_PARALLELISM)

    # Checkpoints and state --------------------------------------------------------------------------

    def get_checkpoint_config(self) -> CheckpointConfig:
        """The settings of checkpoints; changing them changes the environment."""
        return self._checkpoint_config

    def enable_checkpointing(self: E, interval: int, mode: CheckpointingMode | None = None) -> E:
        """Take a checkpoint every ``interval`` milliseconds; failed jobs then start again from the newest one."""
        self._checkpoint_config.set_checkpoint_interval(interval)
        if mode is not None:
            self._checkpoint_config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between checkpoints; -1 for no checkpoints."""
        return self._checkpoint_config.get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """What a checkpoint guarantees."""
        return self._checkpoint_config.get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """The same as `get_checkpointing_mode`."""
        return self._checkpoint_config.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers may overtake records."""
        return self._checkpoint_config.is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether barriers overtake even where Flink would not."""
        return self._checkpoint_config.is_force_unaligned_checkpoints()

    def enable_changelog_state_backend(self: E, enabled: bool) -> E:
        """Accepted: deltas of changed keys serve the purpose of Flink's changelog."""
        self._set(options.STATE_CHANGELOG, enabled)
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """What `enable_changelog_state_backend` was told, None when it was not called."""
        return self._configuration.get(options.STATE_CHANGELOG)

    def set_default_savepoint_directory(self: E, directory: str) -> E:
        """Set where savepoints go when they do not say."""
        self._set(options.SAVEPOINT_DIR, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Where savepoints go when they do not say."""
        return self._configuration.get(options.SAVEPOINT_DIR)

    # Files and Python -------------------------------------------------------------------------------

    def add_python_file(self, file_path: str) -> None:
        """Make a Python file, package or archive importable in the tasks."""
        path = _existing("add_python_file()", file_path)
        self._append(options.PYTHON_FILES, path)

    def set_python_requirements(
        self, requirements_file_path: str, requirements_cache_dir: str | None = None
    ) -> None:
        """Install the packages of a requirements file for the tasks, from a directory of wheels if one is given."""
        path = _existing("set_python_requirements()", requirements_file_path)
        if requirements_cache_dir is not None:
            path = f"{path}#{_existing('set_python_requirements()', requirements_cache_dir)}"
        self._set(options.PYTHON_REQUIREMENTS, path)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Unpack an archive in the working directory of the tasks, under its own name or ``target_dir``."""
        path = _existing("add_python_archive()", archive_path)
        self._append(options.PYTHON_ARCHIVES, path if target_dir is None else f"{path}#{target_dir}")

    def set_python_executable(self, python_exec: str) -> None:
        """Set the Python interpreter of the tasks."""
        self._set(options.PYTHON_EXECUTABLE, python_exec)

    def add_jars(self, *jars_path: str) -> None:
        """Hand jar files to Spark; nothing of Firesteel needs any."""
        for path in jars_path:
            self._append(options.PIPELINE_JARS, path)

    def add_classpaths(self, *classpaths: str) -> None:
        """Have Spark's JVMs load classes from these paths or file: URLs, too; nothing of Firesteel needs any."""
        for path in classpaths:
            self._append(options.PIPELINE_CLASSPATHS, path)

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Copy a file or directory to every task, where ``runtime_context.get_cached_file(name)`` finds it.

        ``executable`` is a hint: copies keep the permissions of the file.
        """
        path = _existing("register_cached_file()", file_path)
        text = self._configuration.get(options.CACHED_FILES)
        known: dict[str, str] = json.loads(text) if text else {}
        if known.get(name, path) != path:
            raise ProgramError(f"register_cached_file(): {name!r} already stands for {known[name]}")
        self._set(options.CACHED_FILES, json.dumps({**known, name: path}))

    def _append(self, option: ConfigOption[list[str] | None], value: str) -> None:
        known = self._configuration.get(option) or []
        if value not in known:
            self._set(option, [*known, value])

    # Names of Flink 1.x -----------------------------------------------------------------------------

    def set_stream_time_characteristic(self, characteristic: TimeCharacteristic) -> None:
        """Choose the time of programs written for Flink before 1.12.

        Windows and timers say themselves which time they mean. ProcessingTime turns periodic watermarks off,
        the others on; IngestionTime gives all records the time of their arrival at the source, unless the
        source has a `WatermarkStrategy` of its own.
        """
        if not isinstance(characteristic, TimeCharacteristic):
            raise wrong_argument("set_stream_time_characteristic()", "a TimeCharacteristic", characteristic)
        if characteristic is TimeCharacteristic.ProcessingTime:
            self._config.set_auto_watermark_interval(0)
        elif self._config.get_auto_watermark_interval() == 0:
            self._set(options.AUTO_WATERMARK_INTERVAL, options.AUTO_WATERMARK_INTERVAL.default)
        self._time_characteristic = characteristic

    def get_stream_time_characteristic(self) -> TimeCharacteristic:
        """What `set_stream_time_characteristic` was told."""
        return self._time_characteristic

    def set_state_backend(self: E, state_backend: StateBackend) -> E:
        """Choose where state lives; this wins over the configuration."""
        if not isinstance(state_backend, StateBackend):
            raise wrong_argument("set_state_backend()", "a StateBackend", state_backend)
        is_own = has_store(type(state_backend))
        said = state_backend.to_configuration()
        self._shipped_backend = Shipped.of(_brought(state_backend), "set_state_backend()") if is_own else None
        self._configuration.add_all(said)
        self._state_backend = state_backend
        return self

    def get_state_backend(self) -> StateBackend | None:
        """What `set_state_backend` was told, None when it was not called."""
        return self._state_backend

    def _backend_options(self, configuration: Configuration) -> Configuration:
        """What the backend object says by now, unless another backend was chosen after it."""
        backend = self._state_backend
        said = Configuration() if backend is None else backend.to_configuration()
        return said if self._is_chosen(said, configuration) else Configuration()

    def _own_backend(self, configuration: Configuration) -> Shipped | None:
        """The user's own backend, unless another one was chosen after it."""
        backend, shipped = self._state_backend, self._shipped_backend
        if backend is None or shipped is None:
            return None
        return shipped if self._is_chosen(backend.to_configuration(), configuration) else None

    @staticmethod
    def _is_chosen(said: Configuration, configuration: Configuration) -> bool:
        return said.get(options.STATE_BACKEND) == configuration.get(options.STATE_BACKEND)

    def set_restart_strategy(self, restart_strategy_configuration: RestartStrategyConfiguration) -> None:
        """Choose when a failed job starts again."""
        if not isinstance(restart_strategy_configuration, RestartStrategyConfiguration):
            raise wrong_argument(
                "set_restart_strategy()", "one of RestartStrategies", restart_strategy_configuration
            )
        self._config.set_restart_strategy(restart_strategy_configuration)

    def get_restart_strategy(self) -> RestartStrategyConfiguration | None:
        """What `set_restart_strategy` was told."""
        return self._config.get_restart_strategy()

    def register_type(self, type_class_name: str) -> None:
        """Accepted: values are Python objects and need no registration."""
        self._config.register_pojo_type(type_class_name)

    def register_type_with_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> None:
        """Accepted: values are Python objects and need no registration."""
        self._config.register_type_with_kryo_serializer(type_class_name, serializer_class_name)

    def add_default_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> None:
        """Accepted: values are Python objects and need no registration."""
        self._config.add_default_kryo_serializer(type_class_name, serializer_class_name)


def _brought(backend: StateBackend) -> Any:
    """What the user wrote, which is what errors should name."""
    return backend.get_backend() if isinstance(backend, CustomStateBackend) else backend


def _existing(used_by: str, path: str) -> str:
    """The path made absolute; one on this machine must exist. Addresses such as ``s3://`` stay as they are."""
    path = os.fspath(path)
    if "://" in path and not path.startswith("file://"):
        return path
    local = os.path.abspath(path.removeprefix("file://"))
    if not os.path.exists(local):
        raise ProgramError(f"{used_by}: there is no file {local}")
    return local
