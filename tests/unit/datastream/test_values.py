"""Value classes: checkpoint settings, storages, backends, slot sharing groups."""

import pytest

from firesteel.common import Configuration, Duration
from firesteel.common.errors import ProgramError
from firesteel.datastream import (
    CheckpointConfig,
    CheckpointingMode,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    FsStateBackend,
    JobManagerCheckpointStorage,
    MemorySize,
    MemoryStateBackend,
    PredefinedOptions,
    RocksDBStateBackend,
    SlotSharingGroup,
)


def test_checkpoint_config_defaults_are_flinks():
    config = CheckpointConfig()
    assert not config.is_checkpointing_enabled()
    assert config.get_checkpoint_interval() == -1
    assert config.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    assert config.get_checkpoint_timeout() == 600000
    assert config.get_min_pause_between_checkpoints() == 0
    assert config.get_max_concurrent_checkpoints() == 1
    assert config.get_tolerable_checkpoint_failure_number() == 0
    assert config.is_fail_on_checkpointing_errors()
    assert (
        config.get_externalized_checkpoint_retention()
        is ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
    )
    assert not config.is_externalized_checkpoints_enabled()
    assert not config.is_unaligned_checkpoints_enabled()
    assert not config.is_force_unaligned_checkpoints()
    assert config.get_alignment_timeout() == Duration.of_millis(0)
    assert config.get_checkpoint_storage() is None


def test_checkpoint_config_keeps_what_it_is_told():
    config = (
        CheckpointConfig()
        .set_checkpoint_interval(5000)
        .set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
        .set_checkpoint_timeout(300)
        .set_min_pause_between_checkpoints(10)
        .set_max_concurrent_checkpoints(2)
        .set_fail_on_checkpointing_errors(False)
        .set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
        .enable_unaligned_checkpoints()
        .set_alignment_timeout(Duration.of_minutes(1))
        .set_force_unaligned_checkpoints()
        .set_checkpoint_storage_dir("file:///tmp/checkpoints/")
    )
    assert config.is_checkpointing_enabled()
    assert config.get_checkpoint_interval() == 5000
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert config.get_checkpoint_timeout() == 300
    assert config.get_min_pause_between_checkpoints() == 10
    assert config.get_max_concurrent_checkpoints() == 2
    assert config.get_tolerable_checkpoint_failure_number() == 2147483647
    assert config.is_externalized_checkpoints_enabled()
    assert config.is_unaligned_checkpoints_enabled()
    assert config.get_aligned_checkpoint_timeout() == Duration.of_minutes(1)
    assert config.is_force_unaligned_checkpoints()
    assert config.get_checkpoint_storage().get_checkpoint_path() == "file:///tmp/checkpoints"
    assert not config.disable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()


@pytest.mark.parametrize(
    ("setter", "value"),
    [
        ("set_checkpoint_interval", 9),
        ("set_checkpoint_timeout", 0),
        ("set_min_pause_between_checkpoints", -1),
        ("set_max_concurrent_checkpoints", 0),
        ("set_tolerable_checkpoint_failure_number", -1),
        ("set_checkpoint_storage", None),
    ],
)
def test_checkpoint_config_refuses_nonsense(setter, value):
    with pytest.raises(ProgramError):
        getattr(CheckpointConfig(), setter)(value)


def test_storages():
    memory = JobManagerCheckpointStorage()
    assert (memory.get_checkpoint_path(), memory.get_max_state_size()) == (None, 5 * 1024 * 1024)
    assert memory.get_savepoint_path() is None
    files = FileSystemCheckpointStorage("file://var/checkpoints/")
    assert files.get_checkpoint_path() == "file://var/checkpoints"
    assert (files.get_min_file_size_threshold(), files.get_write_buffer_size()) == (20480, 20480)
    assert FileSystemCheckpointStorage("/x", 2048, 100).get_write_buffer_size() == 100
    for bad in (lambda: FileSystemCheckpointStorage(), lambda: FileSystemCheckpointStorage("/x", 2**21)):
        with pytest.raises(ProgramError):
            bad()


def test_rocksdb_backend_keeps_what_it_is_told():
    backend = EmbeddedRocksDBStateBackend()
    assert backend.get_number_of_transfer_threads() == 4
    assert (backend.get_options(), backend.get_db_storage_paths()) == (None, None)
    assert not backend.is_incremental_checkpoints_enabled()
    assert EmbeddedRocksDBStateBackend(True).is_incremental_checkpoints_enabled()
    backend.set_db_storage_paths("file://var/x/", "/y")
    assert backend.get_db_storage_paths() == ["/x", "/y"]
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    assert backend.get_predefined_options() is PredefinedOptions.FLASH_SSD_OPTIMIZED
    backend.set_number_of_transfer_threads(8)
    assert backend.get_number_of_transfer_threads() == 8
    for bad in ("relative", "s3://bucket/x"):
        with pytest.raises(ProgramError):
            backend.set_db_storage_paths(bad)
    with pytest.raises(ProgramError, match="must be True, False or None, got 'yes'"):
        EmbeddedRocksDBStateBackend("yes")


def test_memory_sizes_compare_and_convert():
    size = MemorySize.of_mebi_bytes(2048)
    assert size == MemorySize(2**31)
    assert hash(size) == hash(MemorySize(2**31))
    assert MemorySize(1) < MemorySize(2) <= MemorySize(2)
    assert (size.get_bytes(), size.get_kibi_bytes(), size.get_mebi_bytes()) == (2**31, 2**21, 2048)
    assert (size.get_gibi_bytes(), size.get_tebi_bytes(), str(size)) == (2, 0, "2 gb")
    assert str(MemorySize(5)) == "5 bytes"


def test_slot_sharing_group_without_resources():
    group = SlotSharingGroup.builder("name").build()
    assert group == SlotSharingGroup.builder("name").build()
    assert group.get_name() == "name"
    assert group.get_cpu_cores() is group.get_task_heap_memory() is group.get_managed_memory() is None
    assert group.get_task_off_heap_memory() is None
    assert group.get_external_resources() == {}


def test_slot_sharing_group_with_resources():
    group = (
        SlotSharingGroup.builder("name")
        .set_cpu_cores(1.5)
        .set_task_heap_memory_mb(100)
        .set_task_off_heap_memory_mb(200)
        .set_managed_memory(MemorySize.of_mebi_bytes(300))
        .set_external_resource("gpu", 1.0)
        .build()
    )
    assert group.get_cpu_cores() == 1.5
    assert group.get_task_heap_memory() == MemorySize.of_mebi_bytes(100)
    assert group.get_task_off_heap_memory() == MemorySize.of_mebi_bytes(200)
    assert group.get_managed_memory() == MemorySize.of_mebi_bytes(300)
    assert group.get_external_resources() == {"gpu": 1.0}
    assert group != SlotSharingGroup.builder("name").build()


@pytest.mark.parametrize(
    "build",
    [
        lambda builder: builder.set_managed_memory_mb(1).build(),
        lambda builder: builder.set_cpu_cores(1).build(),
        lambda builder: builder.set_task_heap_memory_mb(1).build(),
        lambda builder: builder.set_external_resource("gpu", 1).build(),
        lambda builder: builder.set_cpu_cores(0),
        lambda builder: builder.set_task_heap_memory_mb(0),
    ],
)
def test_slot_sharing_group_refuses_half_a_specification(build):
    with pytest.raises(ProgramError, match="slot sharing group 'name'"):
        build(SlotSharingGroup.builder("name"))


@pytest.mark.parametrize(
    ("setter", "bad", "expected"),
    [
        ("set_checkpoint_interval", "1 s", "milliseconds"),
        ("set_checkpoint_interval", 1000.5, "milliseconds"),
        ("set_checkpoint_timeout", None, "milliseconds"),
        ("set_min_pause_between_checkpoints", "1 s", "milliseconds"),
        ("set_max_concurrent_checkpoints", True, "a whole number"),
        ("set_tolerable_checkpoint_failure_number", "3", "a whole number"),
        ("set_checkpointing_mode", "EXACTLY_ONCE", "a CheckpointingMode"),
        (
            "set_externalized_checkpoint_retention",
            "RETAIN_ON_CANCELLATION",
            "an ExternalizedCheckpointRetention",
        ),
        ("set_aligned_checkpoint_timeout", 1000, "a Duration"),
        ("set_checkpoint_storage", "/checkpoints", "a FileSystemCheckpointStorage"),
    ],
)
def test_checkpoint_config_says_what_it_needs(setter, bad, expected):
    with pytest.raises(TypeError, match=rf"{setter}\(\) needs {expected}"):
        getattr(CheckpointConfig(), setter)(bad)


def test_a_string_as_storage_is_pointed_to_the_other_setter():
    with pytest.raises(TypeError, match=r"use set_checkpoint_storage_dir\(\) for a directory"):
        CheckpointConfig().set_checkpoint_storage("/checkpoints")


def test_storage_shows_what_options_say():
    configuration = Configuration.from_dict({"execution.checkpointing.dir": "/checkpoints"})
    storage = CheckpointConfig(configuration).get_checkpoint_storage()
    assert isinstance(storage, FileSystemCheckpointStorage)
    assert storage.get_checkpoint_path() == "/checkpoints"


def test_backends_of_flink_1_are_a_backend_and_a_storage():
    memory = MemoryStateBackend(max_state_size=1000)
    assert (memory.get_max_state_size(), memory.is_using_asynchronous_snapshots()) == (1000, True)
    assert memory.to_configuration().to_dict() == {
        "state.backend.type": "hashmap",
        "execution.checkpointing.storage": "jobmanager",
        "firesteel.checkpoint.memory-limit": "1000",
    }
    files = FsStateBackend("file:///checkpoints/", "/savepoints")
    assert (files.get_checkpoint_path(), files.get_savepoint_path()) == ("file:///checkpoints", "/savepoints")
    assert (files.get_min_file_size_threshold(), files.get_write_buffer_size()) == (20480, 20480)
    assert files.to_configuration().to_dict() == {
        "state.backend.type": "hashmap",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": "file:///checkpoints",
        "execution.checkpointing.savepoint-dir": "/savepoints",
    }
    disk = RocksDBStateBackend("/checkpoints", enable_incremental_checkpointing=True)
    disk.set_db_storage_paths("/fast")
    assert disk.is_incremental_checkpoints_enabled()
    assert disk.to_configuration().to_dict() == {
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "state.backend.disk.dirs": "/fast",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": "/checkpoints",
    }
    given = RocksDBStateBackend(checkpoint_stream_backend=files)
    assert given.get_checkpoint_backend() is files
    assert given.to_configuration().get_string("execution.checkpointing.dir", "") == "file:///checkpoints"


def test_backends_of_flink_1_say_what_they_need():
    with pytest.raises(ProgramError, match="needs a directory"):
        FsStateBackend()
    with pytest.raises(ProgramError, match="needs checkpoint_data_uri or checkpoint_stream_backend"):
        RocksDBStateBackend()
