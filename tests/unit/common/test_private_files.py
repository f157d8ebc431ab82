"""Who may read and write what Firesteel makes for itself, at the usual mask and at others."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.common._private_files import (
    create_private,
    current_umask,
    make_private_directories,
    open_private_log,
)


@pytest.fixture(params=[0o000, 0o002, 0o022, 0o077], ids="{:03o}".format, autouse=True)
def mask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):o}"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    return tmp_path


def test_new_files_and_directories_are_for_their_owner(directory: Path) -> None:
    make_private_directories(str(directory / "a" / "b"))
    create_private(str(directory / "a" / "b" / "file")).close()
    assert mode(directory) == "755", "what was there stays as it was"
    assert [mode(directory / "a"), mode(directory / "a" / "b")] == ["700", "700"]
    assert mode(directory / "a" / "b" / "file") == "600"


def test_directory_shared_with_a_group_shares_what_is_made_inside(directory: Path) -> None:
    (directory / "shared").mkdir()
    (directory / "shared").chmod(0o2770)
    make_private_directories(str(directory / "shared" / "job" / "chk-1"))
    create_private(str(directory / "shared" / "job" / "chk-1" / "file")).close()
    assert mode(directory / "shared" / "job" / "chk-1") == "2770"
    assert mode(directory / "shared" / "job" / "chk-1" / "file") == "660"


def test_directory_open_to_all_is_shared_with_nobody(directory: Path) -> None:
    (directory / "open").mkdir()
    (directory / "open").chmod(0o1777)
    make_private_directories(str(directory / "open" / "job"))
    assert mode(directory / "open" / "job") == "700"


def test_directory_that_is_there_is_no_mistake_and_a_file_in_its_place_is(directory: Path) -> None:
    make_private_directories(str(directory))
    (directory / "file").touch()
    with pytest.raises((FileExistsError, NotADirectoryError)):
        make_private_directories(str(directory / "file" / "below"))


def test_existing_file_is_not_overwritten(directory: Path) -> None:
    (directory / "file").write_text("mine")
    with pytest.raises(FileExistsError):
        create_private(str(directory / "file"))


def test_log_is_appended_to(directory: Path) -> None:
    for text in (b"one\n", b"two\n"):
        with open_private_log(str(directory / "logs" / "job.log")) as log:
            log.write(text)
    assert (directory / "logs" / "job.log").read_text() == "one\ntwo\n"
    assert mode(directory / "logs" / "job.log") == "600"


def test_mask_is_read_without_being_changed(mask: int) -> None:
    assert [current_umask(), current_umask()] == [mask, mask]
