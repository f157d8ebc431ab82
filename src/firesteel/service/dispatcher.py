"""Takes submissions, and does what `supervision` decides about them: the shell around it, with files, processes and a clock."""

from __future__ import annotations

import dataclasses
import logging
import secrets
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from firesteel.common.job_status import JobStatus
from firesteel.common.time import to_millis
from firesteel.rest.archive import archive_of
from firesteel.service.archives import ArchivedJobs
from firesteel.service.drivers import Drivers
from firesteel.service.folder import JobFolder, ServiceFolder
from firesteel.service.processes import end_driver, is_alive
from firesteel.service.records import DriverReport, End, JobReport, Orders, SubmittedProgram
from firesteel.service.stand_ins import StandIn
from firesteel.service.supervision import (
    Allow,
    Close,
    Decision,
    Grant,
    Refuse,
    Seen,
    Start,
    decide,
    slots_in_use,
)

__all__ = ["Dispatcher", "Managed"]

_LOG = logging.getLogger(__name__)

#: How often files are looked at while something is about to happen, and when nothing is.
_BUSY_SECONDS, _CALM_SECONDS = 0.01, 0.1
_SHOWN_LINES = 40
_JOIN_SECONDS = 10.0


@dataclass(slots=True)
class Managed:
    """A submission that is not over. Only the thread of the dispatcher changes it."""

    folder: JobFolder
    submission: SubmittedProgram
    orders: Orders
    report: DriverReport | None = None
    is_alive: bool = False
    died_at: float | None = None
    read_at: int = 0  # of the file of the report
    known: threading.Event = field(
        default_factory=threading.Event
    )  # it has a job, which may wait, or is over

    @property
    def is_settled(self) -> bool:
        """Whether nothing is about to happen."""
        jobs = () if self.report is None else self.report.jobs
        return self.is_alive and bool(jobs) and all(job.status == "RUNNING" for job in jobs)


class Dispatcher:
    """The submissions of one service."""

    def __init__(
        self,
        folder: ServiceFolder,
        drivers: Drivers,
        archive: ArchivedJobs,
        slots: int,
        kept_jobs: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self.archive = archive
        self.slots = slots
        self._drivers = drivers
        self._kept_jobs = kept_jobs
        self._clock = clock
        self._lock = threading.Lock()
        self._managed: dict[str, Managed] = {}
        self._wake = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="firesteel-dispatcher", daemon=True)

    def start(self) -> None:
        """Take up what is in the folder, and begin to work."""
        self.archive.refresh()
        for folder in self.folder.all_jobs():
            if folder.end() is None:
                self._managed[folder.id] = Managed(folder, folder.submission(), folder.orders())
        if self._managed:
            _LOG.info("%d submissions of an earlier service are taken up", len(self._managed))
        self._thread.start()

    def close(self) -> None:
        """Decide nothing any more; drivers continue."""
        self._is_closed = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)
        self._drivers.close()

    # What paths ask for.

    def submit(self, folder: JobFolder, submission: SubmittedProgram) -> Managed:
        """Run a program whose files are in the folder; it is, from now on, whatever happens to the service."""
        folder.submit(submission)
        managed = Managed(folder, submission, Orders())
        with self._lock:
            self._managed[folder.id] = managed
        self._wake.set()
        return managed

    @staticmethod
    def new_id() -> str:
        """The id of a submission, and of its first job."""
        return secrets.token_hex(16)

    def managed(self) -> list[Managed]:
        """Submissions that are not over, the oldest first."""
        with self._lock:
            return sorted(
                self._managed.values(), key=lambda each: (each.submission.submitted, each.folder.id)
            )

    def find(self, job_id: str) -> tuple[Managed, JobReport | None] | None:
        """The submission of a job that is not over, and what its driver says of the job."""
        for each in self.managed():
            report = each.report
            for job in () if report is None else report.jobs:
                if job.id == job_id:
                    return each, job
            if each.folder.id == job_id:
                return each, None
        return None

    def cancel(self, managed: Managed) -> None:
        """End a submission whose job has not begun."""
        self._order(managed, is_cancelled=True)
        process = managed.report.process if managed.report is not None else managed.orders.process
        if process is not None:
            end_driver(process, by_force=True)
        self._wake.set()

    def slots_available(self) -> int:
        """Those that no job has."""
        return max(0, self.slots - slots_in_use(self._seen(each) for each in self.managed()))

    def stand_ins(self) -> list[StandIn]:
        """Jobs that wait to begin, or whose driver has died and will be started again."""
        stand_ins = []
        for each in self.managed():
            jobs = () if each.report is None else each.report.jobs
            stand_ins += [
                _waiting(each, job) for job in jobs if not job.is_over and not (job.status and each.is_alive)
            ]
            if not jobs:
                stand_ins.append(_starting(each))
        return stand_ins

    # The thread.

    def _run(self) -> None:
        while not self._is_closed:
            try:
                is_calm = self._step()
            except Exception:  # noqa: BLE001 - one submission that cannot be handled must not end the others
                _LOG.exception("the dispatcher goes on after an error")
                is_calm = True
            self._wake.wait(_CALM_SECONDS if is_calm else _BUSY_SECONDS)
            self._wake.clear()

    def _step(self) -> bool:
        """Look at everything and do what follows; whether nothing is about to happen."""
        self._drivers.reap()
        everything = self.managed()
        for each in everything:
            self._look(each)
        by_id = {each.folder.id: each for each in everything}
        decisions = decide([self._seen(each) for each in everything], self.slots)
        for decision in decisions:
            self._do(by_id[decision.id], decision)
        for each in everything:
            if _waits_for_slots(each):
                each.known.set()
        is_calm = not decisions and all(each.is_settled for each in everything)
        if is_calm:
            # Not while a job starts: it would have to share the processors with a Spark that nobody waits for.
            self._drivers.keep_spares()
        return is_calm

    def _look(self, each: Managed) -> None:
        path = each.folder.path / "report.json"
        try:
            changed = path.stat().st_mtime_ns
        except FileNotFoundError:
            changed = 0
        if changed != each.read_at:
            each.read_at, each.report = changed, each.folder.report()
        reports = each.report is not None and is_alive(each.report.process)
        started = each.orders.process is not None and is_alive(each.orders.process)
        each.is_alive = reports or started
        if started and not reports and each.report is not None:
            each.report = _without_states(each.report)
        if each.is_alive:
            each.died_at = None
        elif each.died_at is None:
            each.died_at = self._clock()
            # Its last words may have come between the look at the file and the look at the process.
            each.report = each.folder.report()
        if each.report is not None and any(job.status for job in each.report.jobs):
            each.known.set()

    def _seen(self, each: Managed) -> Seen:
        since = 0.0 if each.died_at is None else self._clock() - each.died_at
        return Seen(each.folder.id, each.submission.submitted, each.orders, each.report, each.is_alive, since)

    def _do(self, each: Managed, decision: Decision) -> None:
        match decision:
            case Start(_, resume, after_death):
                self._start(each, resume, after_death)
            case Grant(_, job, slots):
                self._order(each, granted={**each.orders.granted, job: slots})
            case Allow(_, job, request, slots):
                granted = {**each.orders.granted, job: slots}
                self._order(each, granted=granted, answered={**each.orders.answered, job: request})
            case Refuse(_, job, needed):
                sentence = f"the job needs {needed} slots, and the service has {self.slots}"
                self._order(each, refused={**each.orders.refused, job: sentence})
            case Close(_, status, sentence):
                self._close(each, status, sentence)

    def _start(self, each: Managed, resume: bool, after_death: bool) -> None:
        if after_death:
            _LOG.warning("the driver of %s has died and is started again", each.folder.id)
        # Written before the process is there: one that is started twice finds the lock of the first.
        self._order(
            each,
            starts=each.orders.starts + 1,
            deaths=each.orders.deaths + after_death,
            resume=each.orders.resume or resume,
        )
        try:
            process = self._drivers.start(each.folder, each.submission)
        except OSError as error:
            self._close(each, "FAILED", f"its driver cannot be started: {error}")
            return
        each.is_alive, each.died_at = True, None
        self._order(each, process=process)

    def _order(self, each: Managed, **changes: object) -> None:
        with self._lock:
            each.orders = dataclasses.replace(each.orders, **changes)  # type: ignore[arg-type]
            each.folder.order(each.orders)

    def _close(self, each: Managed, status: str, sentence: str) -> None:
        now = to_millis(time.time())
        if sentence and status == "FAILED":
            sentence = "\n".join([sentence, *_last_lines(each.folder.log)])
        self.archive.refresh()
        for job in self._unarchived(each, status, sentence, now):
            self.archive.add(archive_of(job.id, job.served()))
        each.folder.close(End(status, now, sentence))
        with self._lock:
            del self._managed[each.folder.id]
        each.known.set()
        _LOG.info("submission %s (%s) is over: %s", each.folder.id, each.submission.name, status)
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        """Keep that many that are over. An archive that others may use, too, is left alone."""
        if self.archive.directory == str(self.folder.archive):
            self.archive.keep_newest(self._kept_jobs)
        over = [folder.path for folder in self.folder.all_jobs() if (folder.path / "end.json").exists()]
        over.sort(key=lambda path: (path / "end.json").stat().st_mtime)
        for path in over[: max(0, len(over) - self._kept_jobs)]:
            shutil.rmtree(path, ignore_errors=True)

    def _unarchived(self, each: Managed, status: str, sentence: str, now: int) -> list[StandIn]:
        """Jobs that their driver has not written down."""
        report = each.report
        jobs = () if report is None else report.jobs
        missing = [job for job in jobs if job.id not in self.archive.ids()]
        stand_ins = [
            StandIn(
                job.id,
                job.name,
                JobStatus[job.status if job.is_over else status],
                job.asked,
                job.ended or now,
                sentence,
                job.mode,
                job.slots,
            )
            for job in missing
        ]
        if not jobs and each.folder.id not in self.archive.ids():
            name, began = each.submission.name, each.submission.submitted
            stand_ins.append(
                StandIn(each.folder.id, name, JobStatus[status], began, now, sentence or "it ran no job")
            )
        return stand_ins


def _without_states(report: DriverReport) -> DriverReport:
    """What is left of the report of a driver that died when the next one has not said anything yet."""
    jobs = tuple(job if job.is_over else dataclasses.replace(job, status="") for job in report.jobs)
    return dataclasses.replace(report, rest="", jobs=jobs)


def _waits_for_slots(each: Managed) -> bool:
    jobs = () if each.report is None else each.report.jobs
    granted, refused = each.orders.granted, each.orders.refused
    return each.is_alive and any(
        granted.get(job.id, 0) < job.needed and job.id not in refused and not job.is_over for job in jobs
    )


def _waiting(each: Managed, job: JobReport) -> StandIn:
    # One whose driver has died waits for the next one.
    status = JobStatus.CREATED if each.is_alive else JobStatus.RESTARTING
    return StandIn(job.id, job.name, status, job.asked, mode=job.mode, slots=job.slots)


def _starting(each: Managed) -> StandIn:
    return StandIn(each.folder.id, each.submission.name, JobStatus.CREATED, each.submission.submitted)


def _last_lines(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - (1 << 16)))
            return file.read().decode(errors="replace").splitlines()[-_SHOWN_LINES:]
    except OSError:
        return []
