"""Whatever local storage has promised holds after a power loss, whichever unforced changes the disk has lost."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from firesteel.checkpoint import local_storage
from firesteel.checkpoint.local_storage import LocalOutput, LocalStorage
from firesteel.common.errors import StorageError
from firesteel_support.power_loss import ProcessDied, RecordedCalls

CRASHES = 12
NOTICED = r"after a power loss|is there again"
BELOW = "checkpoints/of/job"  # none of these directories is there at first


class Promises:
    """Several processes at work in one directory, some of which die, and what the others have been promised."""

    def __init__(self, calls: RecordedCalls, root: str, rng: random.Random) -> None:
        self.calls = calls
        self.rng = rng
        self.job = LocalStorage(f"{root}/{BELOW}")
        self.job.make_directory()
        self.files: dict[str, bytes] = {}  # must be there
        self.deleted: set[str] = set()  # must not be there
        self.closed: dict[str, bytes] = {}  # must be there when something is published that refers to them
        self.begun: dict[str, bytes] = {}  # was to be published
        self.number = 0

    def step(self) -> None:
        self.number += 1
        directory = self.rng.choice(("", "chk-1", "chk-2", "shared"))
        path = f"{directory}/{self.number}" if directory else str(self.number)
        content = self.rng.randbytes(self.rng.randint(0, 20))
        kind = self.rng.choice(("write", "write", "publish", "publish", "delete", "sync", "taken"))
        if self.rng.random() < 0.3:
            self.calls.calls_left = self.rng.randint(0, 8)
        try:
            self._do(kind, path, content)
        except ProcessDied:
            pass
        finally:
            self.calls.calls_left = None

    def _do(self, kind: str, path: str, content: bytes) -> None:
        job = LocalStorage(self.job.uri)  # each process has one of its own
        match kind:
            case "write":
                with contextlib.closing(job.create(path)) as output:
                    output.write(content)
                self.closed[path] = content
            case "publish" | "taken":
                self.begun[path] = content
                job.publish(path, content)
                self._published(path, content)
                if kind == "taken":
                    with pytest.raises(StorageError):
                        job.publish(path, b"another one")
            case "delete" if self.files:
                victim = self.rng.choice(sorted(self.files))
                del self.files[victim]
                self.begun.pop(victim, None)
                job.delete(victim)
                if self.rng.random() < 0.5:
                    job.sync(victim.rpartition("/")[0])
                    self.deleted.add(victim)
            case "sync":  # what somebody has published who may have died before it was forced to disk
                directory = path.rpartition("/")[0]
                names = job.list(directory)
                if names:
                    job.sync(directory)
                whole = {f"{directory}/{name}".lstrip("/") for name in names} & self.begun.keys()
                self.files |= {name: self.begun[name] for name in whole}

    def _published(self, path: str, content: bytes) -> None:
        self.files |= {**self.closed, path: content}
        self.closed = {}

    def close(self) -> None:
        self.calls.end()

    def check(self) -> None:
        for _ in range(CRASHES):
            disk = self.calls.after_power_loss(self.rng)
            for path, content in self.files.items():
                assert disk.get(f"{BELOW}/{path}", "lost") == content, f"{path} after a power loss"
            for path in self.deleted:
                assert f"{BELOW}/{path}" not in disk, f"{path} is there again"


def run(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgets: str = "") -> None:
    rng = random.Random(f"power loss {seed}")
    root = tmp_path / f"{seed}" / "tree"
    root.mkdir(parents=True)
    calls = RecordedCalls(str(root), forgets)
    monkeypatch.setattr(local_storage, "os", calls)
    monkeypatch.setattr(local_storage, "_new_file", calls.create)
    monkeypatch.setattr(local_storage, "_new_directory", calls.mkdir)
    promises = Promises(calls, str(root), rng)
    with contextlib.closing(promises):
        for _ in range(15):
            promises.step()
            promises.check()


def run_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgets: str = "") -> None:
    for seed in range(60):
        run(seed, tmp_path, monkeypatch, forgets)


def test_what_storage_has_promised_survives_a_power_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_all(tmp_path, monkeypatch)


@pytest.mark.parametrize("forgets", ["file", "directory"])
def test_storage_that_does_not_force_something_to_disk_would_be_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgets: str
) -> None:
    with pytest.raises(AssertionError, match=NOTICED):
        run_all(tmp_path, monkeypatch, forgets)


def only_the_directory_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every directory that is there were on disk."""
    monkeypatch.setattr(
        LocalStorage, "_sync_names", lambda self, directory: local_storage._sync_directory(directory)
    )


def names_of_state_files(monkeypatch: pytest.MonkeyPatch) -> None:
    close = LocalOutput.close
    monkeypatch.setattr(LocalOutput, "close", lambda self, sync_directory=True: close(self, False))


def names_of_new_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    make = local_storage._make_directories
    monkeypatch.setattr(local_storage, "_make_directories", lambda full, forced: make(full, False))


def what_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalStorage, "_sync_names", lambda self, directory: None)


@pytest.mark.parametrize(
    "forget", [only_the_directory_itself, names_of_state_files, names_of_new_directories, what_is_published]
)
def test_step_that_is_left_out_would_be_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget: Callable[[pytest.MonkeyPatch], None]
) -> None:
    forget(monkeypatch)
    with pytest.raises(AssertionError, match=NOTICED):
        run_all(tmp_path, monkeypatch)
