"""The operating system's files as the sink sees them: only "it is not there" means that, and syncs count."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from firesteel.connectors.files.file_system import LOCAL, make_folders


def test_only_what_is_not_there_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("abc")
    (tmp_path / "loop").symlink_to("loop")
    status = LOCAL.status_of(str(tmp_path / "file"))
    assert status is not None
    assert status.size == 3
    for nothing in ("nowhere", "file/below"):
        assert LOCAL.status_of(str(tmp_path / nothing)) is None
        assert LOCAL.names(str(tmp_path / nothing)) == []
    for ask in (LOCAL.status_of, LOCAL.names):
        with pytest.raises(OSError, match="Too many levels"):
            ask(str(tmp_path / "loop"))


def test_folders_are_made_from_above_and_each_is_synced_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    mkdir, fsync = os.mkdir, os.fsync

    def noted_mkdir(path: str) -> None:
        steps.append(f"make {os.path.relpath(path, tmp_path)}")
        mkdir(path)

    def noted_fsync(descriptor: int) -> None:
        steps.append(f"sync {os.path.relpath(os.readlink(f'/proc/self/fd/{descriptor}'), tmp_path)}")
        fsync(descriptor)

    monkeypatch.setattr(os, "mkdir", noted_mkdir)
    monkeypatch.setattr(os, "fsync", noted_fsync)
    make_folders(LOCAL, str(tmp_path / "a/b"))
    assert steps == ["sync ..", "make a", "sync .", "make a/b", "sync a"]
    steps.clear()
    make_folders(LOCAL, str(tmp_path / "a/b"))
    assert steps == ["sync a"]
