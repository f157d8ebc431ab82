"""A job resumes only from what this user, or somebody he trusts, has written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from firesteel.checkpoint.layout import METADATA
from firesteel.checkpoint.manifest import Manifest, OperatorState
from firesteel.checkpoint.stored_checkpoint import StoredCheckpoint, load
from firesteel.checkpoint.trust import refuse_untrusted
from firesteel.common.errors import CorruptStateError, StateError
from firesteel.plan.state_handles import OperatorHandle, Segment

STRANGER = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


def manifest(file: str = "1-0-1-1") -> Manifest:
    handle = OperatorHandle("o", 0, (Segment(file, 0, 4, 1, 0, b""),))
    return Manifest(
        "j" * 32, "job", 1, 0, operators=(OperatorState("o", "o", 1, 128, subtasks=(handle,)),), root="."
    )


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    directory = tmp_path / "savepoint-1"
    directory.mkdir(0o700)
    (directory / METADATA).write_bytes(manifest().encode())
    (directory / "1-0-1-1").write_bytes(b"data")
    for path in directory.iterdir():
        path.chmod(0o600)
    return directory


def point(savepoint: Path) -> StoredCheckpoint:
    return load(str(savepoint))


def test_own_savepoint_is_trusted(savepoint: Path) -> None:
    refuse_untrusted(point(savepoint))


@pytest.mark.parametrize("name", [".", METADATA, "1-0-1-1"])
def test_what_everybody_can_write_is_refused(savepoint: Path, name: str) -> None:
    (savepoint / name).chmod(0o777)
    with pytest.raises(
        StateError, match=r"every user of this machine.*'firesteel.checkpoint.trust-directory'"
    ):
        refuse_untrusted(point(savepoint))


def test_what_others_can_only_read_is_trusted(savepoint: Path) -> None:
    savepoint.chmod(0o755)
    refuse_untrusted(point(savepoint))


@needs_root
@pytest.mark.parametrize("name", [".", METADATA, "1-0-1-1"])
def test_what_belongs_to_another_user_is_refused(savepoint: Path, name: str) -> None:
    os.chown(savepoint / name, STRANGER, STRANGER)
    with pytest.raises(StateError, match=f"belongs to another user .{STRANGER};"):
        refuse_untrusted(point(savepoint))


@needs_root
def test_files_of_others_in_a_directory_that_is_shared_with_their_group_are_trusted(savepoint: Path) -> None:
    os.chown(savepoint, 0, STRANGER)
    savepoint.chmod(0o2770)
    os.chown(savepoint / "1-0-1-1", STRANGER, STRANGER)
    refuse_untrusted(point(savepoint))


@needs_root
def test_strangers_cannot_declare_their_own_directory_shared(savepoint: Path) -> None:
    for path in (savepoint, *savepoint.iterdir()):
        os.chown(path, STRANGER, STRANGER)
    savepoint.chmod(0o2770)
    with pytest.raises(StateError, match="belongs to another user"):
        refuse_untrusted(point(savepoint))


@pytest.mark.parametrize("file", ["/etc/passwd", "../../secret", "a/../../b"])
def test_manifest_that_leads_outside_is_refused(file: str) -> None:
    with pytest.raises(CorruptStateError, match="outside of what was saved"):
        Manifest.decode(manifest(file).encode())
