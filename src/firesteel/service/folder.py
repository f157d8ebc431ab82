"""The folder of a service: what was submitted and what became of it, so that it survives the service.

::

    service.lock              held by the service that works here
    service.json              where that one listens
    service.log               what the service has printed and logged; service.log.1 and so on: the same, earlier
    jars/<id>                 uploaded artifacts
    archive/<job>.json        jobs that have ended, if 'jobmanager.archive.fs.dir' names no other place
    jobs/<id>/                one submission
      submission.json           what is to be run; written once
      files/                    the program and what belongs to it
      orders.json               what the service has decided; only the service writes it
      report.json               what the driver says of itself and its jobs; only the driver writes it
      end.json                  how it ended; written once
      driver.log                what the driver has printed and logged; driver.log.1 and so on: the same, earlier

Every file has one writer and is replaced as a whole, so nobody reads half of one, and neither side waits for the other: a driver
lives on when the service dies, and the next service reads where things stand. All of it is its owner's only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firesteel.common._private_files import make_private_directories, make_private_directory
from firesteel.service.records import DriverReport, End, Orders, SubmittedProgram

__all__ = ["JobFolder", "ServiceFolder", "read_json", "write_json"]


def write_json(path: Path, content: Any, *, durable: bool = False) -> None:
    """Replace a file as a whole. ``durable``: it is on disk when this returns, as far as the system can tell."""
    partial = path.with_name(f".{path.name}-{secrets.token_hex(4)}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if durable:
        _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: Path) -> Any:
    """What a file holds; None when there is none. One that is no JSON is a mistake, and raises ValueError."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None


@dataclass(frozen=True, slots=True)
class JobFolder:
    """One submission."""

    path: Path

    @property
    def id(self) -> str:
        """The id of the submission, which its first job has, too."""
        return self.path.name

    @property
    def files(self) -> Path:
        """The program and what belongs to it."""
        return self.path / "files"

    @property
    def log(self) -> Path:
        """What the driver has printed and logged."""
        return self.path / "driver.log"

    def submission(self) -> SubmittedProgram:
        """What is to be run."""
        return SubmittedProgram.from_json(read_json(self.path / "submission.json"))

    def submit(self, submission: SubmittedProgram) -> None:
        """Write down what is to be run; from then on it will be, whatever happens to the service."""
        write_json(self.path / "submission.json", submission.to_json(), durable=True)

    def orders(self) -> Orders:
        """What the service has decided so far."""
        return Orders.from_json(read_json(self.path / "orders.json") or {})

    def order(self, orders: Orders) -> None:
        """Write down what the service has decided."""
        write_json(self.path / "orders.json", orders.to_json(), durable=True)

    def report(self) -> DriverReport | None:
        """What the driver says; None before its first word."""
        content = read_json(self.path / "report.json")
        return None if content is None else DriverReport.from_json(content)

    def write_report(self, report: DriverReport) -> None:
        """Write down what the driver says; the driver calls this."""
        write_json(self.path / "report.json", report.to_json())

    def end(self) -> End | None:
        """How it ended; None when it has not."""
        content = read_json(self.path / "end.json")
        return None if content is None else End.from_json(content)

    def close(self, end: End) -> None:
        """It is over: write that down; the program is not needed any more."""
        write_json(self.path / "end.json", end.to_json(), durable=True)
        shutil.rmtree(self.files, ignore_errors=True)

    def lock(self, machine: str) -> int | None:
        """Be the only driver of this submission on this machine, while the process lives; None when there is one already."""
        return _locked(self.path / f"driver-{machine}.lock")


class ServiceFolder:
    """All of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.jars = path / "jars"
        self.jobs = path / "jobs"
        self.work = path / "work"
        self.archive = path / "archive"
        self.log = path / "service.log"

    def prepare(self) -> None:
        """Make what is missing, for the owner only."""
        for each in (self.path, self.jars, self.jobs, self.work, self.archive):
            make_private_directories(str(each))

    def lock(self) -> int | None:
        """Be the service of this folder, while the process lives; None when there is one already."""
        return _locked(self.path / "service.lock")

    def service(self) -> dict[str, Any] | None:
        """Where the service is that works here, or has last done so: url, pid, machine."""
        content = read_json(self.path / "service.json")
        return content if isinstance(content, dict) else None

    def write_service(self, content: dict[str, Any] | None) -> None:
        """Tell commands where the service is; None: there is none any more."""
        if content is None:
            (self.path / "service.json").unlink(missing_ok=True)
        else:
            write_json(self.path / "service.json", content)

    def job(self, job_id: str) -> JobFolder:
        """The folder of a submission, there or not."""
        return JobFolder(self.jobs / job_id)

    def all_jobs(self) -> Iterator[JobFolder]:
        """Every submission that was written down."""
        for path in sorted(self.jobs.iterdir()):
            if (path / "submission.json").is_file():
                yield JobFolder(path)

    @contextlib.contextmanager
    def new_job(self, job_id: str) -> Iterator[JobFolder]:
        """A folder to be filled; gone again if that fails. Raises FileExistsError when the id was used before."""
        folder = self.job(job_id)
        make_private_directory(str(folder.path))
        try:
            make_private_directory(str(folder.files))
            yield folder
        except BaseException:
            shutil.rmtree(folder.path, ignore_errors=True)
            raise
        _sync_directory(self.jobs)

    def is_held(self) -> bool:
        """Whether a service works here now."""
        held = self.lock()
        if held is None:
            return True
        os.close(held)
        return False


def _locked(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
