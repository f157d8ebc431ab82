"""What service and drivers write down for each other: frozen data, as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from firesteel.common.job_status import JobStatus

__all__ = ["DriverReport", "End", "JobReport", "Orders", "ProcessMark", "SubmittedProgram"]


@dataclass(frozen=True, slots=True)
class SubmittedProgram:
    """A program to be run. Names of files are below the submission's folder ``files``; ``submitted`` is in milliseconds."""

    id: str
    submitted: int
    name: str
    script: str | None = None
    module: str | None = None
    arguments: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    python_files: tuple[str, ...] = ()
    requirements: str | None = None
    requirements_cache: str | None = None
    archives: tuple[str, ...] = ()
    pyflink: bool = False

    def to_json(self) -> dict[str, Any]:
        """As it is written down."""
        return _to_json(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> SubmittedProgram:
        """As it was written down."""
        lists = {name: tuple(found.get(name, ())) for name in ("arguments", "python_files", "archives")}
        return cls(**{**_known(cls, found), **lists})


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """A process of a machine, told from others that get its number later: ``since`` is when it began, as its system counts."""

    pid: int
    machine: str
    since: str = ""


@dataclass(frozen=True, slots=True)
class JobReport:
    """A job of a driver. ``status`` is empty while it waits for slots; ``ended`` is 0 before; times are in milliseconds.

    ``slots``: how many it has, or waits for. ``wanted``: how many it asks for while it runs, in order to be rescaled, with the number
    of that ``request``; 0: no others than it has. ``least``: with how many it makes do, of those that it waits for, or that are
    ``wanted``, which is not answered before there are that many; 0: it waits for all, and wants an answer at once.
    ``resumable``: its checkpoints are in a directory, so another driver can resume from them.
    """

    id: str
    name: str
    slots: int
    asked: int
    resumable: bool = False
    mode: str = "STREAMING"
    status: str = ""
    ended: int = 0
    wanted: int = 0
    request: int = 0
    least: int = 0

    @property
    def needed(self) -> int:
        """How many slots it has to have, whatever else it asks for."""
        return self.slots if self.wanted or not self.least else self.least

    @property
    def is_over(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.status != "" and JobStatus[self.status].is_terminal_state()


@dataclass(frozen=True, slots=True)
class DriverReport:
    """What a driver says: who it is, where its REST interface is, its jobs, and its exit code when it ends by itself."""

    process: ProcessMark
    rest: str = ""
    jobs: tuple[JobReport, ...] = ()
    exit_code: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As it is written down."""
        return _to_json(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> DriverReport:
        """As it was written down."""
        process = ProcessMark(**_known(ProcessMark, found["process"]))
        jobs = tuple(JobReport(**_known(JobReport, each)) for each in found.get("jobs", ()))
        return cls(process, str(found.get("rest", "")), jobs, found.get("exit_code"))


@dataclass(frozen=True, slots=True)
class Orders:
    """What the service has decided about a submission.

    ``starts``: how often a driver was started; ``deaths``: how often one has died without a word; ``process``: the last one;
    ``resume``: it is to resume from the newest checkpoint. ``granted``: how many slots its jobs have; ``refused``: jobs that get
    none, and why; ``answered``: the newest request of each running job for others that ``granted`` is the answer to.
    ``is_cancelled``: somebody wants it to end.
    """

    starts: int = 0
    deaths: int = 0
    process: ProcessMark | None = None
    resume: bool = False
    granted: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    answered: Mapping[str, int] = field(default_factory=dict)
    is_cancelled: bool = False

    def held(self, job: JobReport) -> int:
        """Those of its slots that a job has a use for.

        What was granted for a request before the newest one, and is not among ``slots``, it has given back meanwhile.
        """
        is_answered = self.answered.get(job.id, 0) >= job.request
        return min(self.granted.get(job.id, 0), max(job.slots, job.wanted) if is_answered else job.slots)

    def to_json(self) -> dict[str, Any]:
        """As it is written down."""
        return _to_json(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Orders:
        """As it was written down."""
        known = _known(cls, found)
        process = known.get("process")
        known["process"] = None if process is None else ProcessMark(**_known(ProcessMark, process))
        return cls(**known)


@dataclass(frozen=True, slots=True)
class End:
    """How a submission has ended; ``sentence`` says why, where the service had to decide it."""

    status: str
    ended: int
    sentence: str = ""

    def to_json(self) -> dict[str, Any]:
        """As it is written down."""
        return _to_json(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> End:
        """As it was written down."""
        return cls(**_known(cls, found))


def _to_json(each: Any) -> dict[str, Any]:
    content = dataclasses.asdict(each)
    content["version"] = 1
    return content


def _known(kind: Any, content: Mapping[str, Any]) -> dict[str, Any]:
    """What this version knows: another one may have written more."""
    names = {each.name for each in dataclasses.fields(kind)}
    return {name: value for name, value in content.items() if name in names}
