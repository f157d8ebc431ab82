"""Where local copies lie, and when the directories of other jobs may go."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from pathlib import Path

import pytest

from firesteel.checkpoint.local_copies import LocalCopies
from firesteel.checkpoint.local_directories import open_local_copies
from firesteel.common.configuration import Configuration

LONG_AGO = time.time() - 7 * 24 * 3600


def on(roots: object, job_id: str = "job") -> LocalCopies:
    configuration = Configuration.from_dict(
        {"state.backend.local-recovery": "true", "taskmanager.state.local.root-dirs": str(roots)}
    )
    copies = open_local_copies(configuration, job_id, 1)
    assert copies is not None
    return copies


def private(root: Path) -> Path:
    return root / f"firesteel-local-{os.getuid()}"


def write(copies: LocalCopies, subtask: int = 0) -> None:
    copy = copies.begin("/checkpoints/job", f"chk-1/0-{subtask}-1-1", 12)
    copy.write(b"state")
    copy.close()


def files(root: Path) -> list[str]:
    return sorted(path.parent.name for path in root.rglob("*.0-*"))


def test_without_the_option_there_are_none(tmp_path: Path) -> None:
    configuration = Configuration.from_dict({"taskmanager.state.local.root-dirs": str(tmp_path)})
    assert open_local_copies(configuration, "job", 1) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", ["state.backend.local-recovery", "execution.state-recovery.from-local"])
def test_flinks_old_and_new_names_of_the_option(key: str, tmp_path: Path) -> None:
    configuration = Configuration.from_dict({key: "true", "taskmanager.state.local.root-dirs": str(tmp_path)})
    copies = open_local_copies(configuration, "job", 1)
    assert copies is not None
    copies.close()


def test_copies_lie_in_a_directory_that_only_the_user_can_enter(tmp_path: Path) -> None:
    copies = on(tmp_path / "new")
    write(copies)
    assert stat.S_IMODE(private(tmp_path / "new").stat().st_mode) == 0o700
    assert files(tmp_path) == ["job"]
    copies.end_job()
    assert list(private(tmp_path / "new").iterdir()) == []


def test_subtasks_take_turns_on_several_disks(tmp_path: Path) -> None:
    copies = on(f"{tmp_path / 'a'}, {tmp_path / 'b'}")
    for subtask in range(3):
        write(copies, subtask)
    assert len(files(tmp_path / "a")) == 2
    assert len(files(tmp_path / "b")) == 1
    copies.end_job()


@pytest.mark.parametrize("configured", [True, False])
def test_the_default_is_the_directory_for_temporary_files(
    configured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"state.backend.local-recovery": "true"}
    if configured:
        options["io.tmp.dirs"] = str(tmp_path)
    else:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    copies = open_local_copies(Configuration.from_dict(options), "job", 1)
    assert copies is not None
    assert private(tmp_path).exists()
    copies.end_job()


def test_a_directory_that_cannot_be_used_is_warned_of_and_done_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    configuration = Configuration.from_dict(
        {"state.backend.local-recovery": "true", "taskmanager.state.local.root-dirs": str(tmp_path / "file")}
    )
    assert open_local_copies(configuration, "job", 1) is None
    (warning,) = caplog.records
    assert str(tmp_path / "file") in warning.getMessage()


@pytest.mark.parametrize("trap", ["open to others", "link"])
def test_a_directory_that_somebody_else_could_have_filled_is_refused(
    trap: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if trap == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        private(tmp_path).symlink_to(tmp_path / "elsewhere")
    else:
        private(tmp_path).mkdir()
        private(tmp_path).chmod(0o777)
    configuration = Configuration.from_dict(
        {"state.backend.local-recovery": "true", "taskmanager.state.local.root-dirs": str(tmp_path)}
    )
    assert open_local_copies(configuration, "job", 1) is None
    assert "mode 700" in caplog.text


# Jobs that are gone -------------------------------------------------------------------------------------


def leave(root: Path, job_id: str, since: float) -> LocalCopies:
    """A job that wrote something a while ago."""
    copies = on(root, job_id)
    write(copies)
    os.utime(private(root) / job_id, (since, since))
    return copies


def test_the_directory_of_a_job_that_is_gone_is_removed_by_the_next_one(tmp_path: Path) -> None:
    leave(tmp_path, "gone", LONG_AGO).close()
    next_one = on(tmp_path, "next")
    assert [path.name for path in private(tmp_path).iterdir()] == ["next"]
    next_one.close()


def test_a_job_that_lives_keeps_its_directory_however_long_it_writes_nothing(tmp_path: Path) -> None:
    living = leave(tmp_path, "living", LONG_AGO)
    next_one = on(tmp_path, "next")
    assert files(tmp_path) == ["living"]
    for copies in (living, next_one):
        copies.close()


def test_a_job_between_two_attempts_keeps_its_directory(tmp_path: Path) -> None:
    leave(tmp_path, "restarting", time.time() - 60).close()
    next_one = on(tmp_path, "next")
    assert files(tmp_path) == ["restarting"]
    next_one.close()


def test_the_next_attempt_keeps_what_the_last_one_wrote(tmp_path: Path) -> None:
    leave(tmp_path, "job", LONG_AGO).close()
    again = on(tmp_path, "job")
    assert files(tmp_path) == ["job"]
    again.close()
