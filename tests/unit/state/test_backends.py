"""Which backend the options choose."""

from __future__ import annotations

from pathlib import Path

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError, StorageError
from firesteel.state.backends import create_backend
from firesteel.state.cached.disk_backend import DiskBackend
from firesteel.state.hashmap_backend import HashMapBackend


def configured(**options: str) -> Configuration:
    return Configuration.from_dict({key.replace("_", "."): value for key, value in options.items()})


@pytest.mark.parametrize(
    "name",
    [
        "hashmap",
        "jobmanager",
        "filesystem",
        "HashMap",
        "org.apache.flink.runtime.state.hashmap.HashMapStateBackend",
    ],
)
def test_names_of_the_backend_in_memory(name: str) -> None:
    assert type(create_backend(configured(state_backend_type=name))) is HashMapBackend


@pytest.mark.parametrize(
    "name", ["disk", "rocksdb", "EmbeddedRocksDBStateBackend", "RocksDBStateBackendFactory"]
)
def test_names_of_the_backend_on_disk(name: str) -> None:
    backend = create_backend(configured(state_backend_type=name))
    assert type(backend) is DiskBackend
    backend.close()


def test_without_a_word_state_is_in_memory() -> None:
    assert type(create_backend(Configuration())) is HashMapBackend


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(
        InvalidOptionError, match=r"'state\.backend\.type' is 'redis', expected hashmap or disk"
    ):
        create_backend(configured(state_backend_type="redis"))


def test_the_file_is_in_a_configured_directory_and_leaves_no_trace(tmp_path: Path) -> None:
    backend = create_backend(configured(state_backend_type="disk", io_tmp_dirs=f"{tmp_path}, /elsewhere"))
    assert list(tmp_path.iterdir()) == []  # deleted while it is open
    backend.table("t")
    backend.touch(["a"])
    backend.close()


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"set io\.tmp\.dirs"):
        create_backend(configured(state_backend_type="disk", io_tmp_dirs=str(tmp_path / "missing")))


def test_increments_are_a_matter_of_options() -> None:
    key = "execution.checkpointing.incremental"
    for value in ("true", "false"):
        backend = create_backend(Configuration.from_dict({key: value}))
        backend.table("t")["a"] = 1
        snapshot = backend.begin_snapshot(1)
        while not snapshot.done:
            snapshot.step()
        backend.checkpoint_completed(1)
        assert backend.begin_snapshot(2).is_full == (value == "false")
