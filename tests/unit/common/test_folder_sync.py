"""Names that survive: a sync that fails is not passed over, unless the file system cannot do any."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from firesteel.common._folder_sync import sync_folder


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_cannot_sync_folders_need_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(os, "fsync", failing(code))
    sync_folder(tmp_path)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.ESTALE])
def test_a_sync_that_fails_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(os, "fsync", failing(code))
    with pytest.raises(OSError, match=os.strerror(code)):
        sync_folder(tmp_path)


def failing(code: int) -> Any:
    def fsync(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    return fsync


def test_a_folder_needs_no_sync_when_this_process_can_have_changed_nothing_in_it(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, which can be somebody else for a while")
    (tmp_path / "closed").mkdir(mode=0o711)
    (tmp_path / "letterbox").mkdir()
    (tmp_path / "letterbox").chmod(0o733)
    for folder in tmp_path, *tmp_path.parents:
        if folder.stat().st_uid == 0 and str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    os.seteuid(65534)
    try:
        sync_folder(tmp_path / "closed")
        with pytest.raises(PermissionError):
            sync_folder(tmp_path / "letterbox")
    finally:
        os.seteuid(0)
