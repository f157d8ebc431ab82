"""The checkpoints of one job: publish, find the newest that can be used, delete what is no longer needed.

**Drivers are fenced by epochs.** A driver that starts to work on a job `claims <JobCheckpoints.claim>` the next epoch.
Object stores do not refuse the second of two writers of one name, so every claim has a name of its own, and a driver
that finds another claim of the same or a greater number beside its own tries again: of two that write at the same
time at least the later one sees the other. No two drivers go on with the same number.
`publish <JobCheckpoints.publish>` looks for a newer epoch before *and after* the manifest appears. If a newer driver
claimed before it appeared, the second look sees that and the old driver tells nobody that the checkpoint is
complete; if it claimed later, it finds the checkpoint. Either way both agree on what has been committed. Among
complete checkpoints those of a newer epoch are newer, whatever their ids. The look also misses the driver's own claim when
a newer driver has ended the job and deleted everything.

**Deleting.** A state file goes when no manifest that is kept refers to it and it belongs to a checkpoint that is not
newer than the newest complete one: newer ones are still being written. Manifests go before files, so that a driver
that dies in between leaves no manifest with missing files behind.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from firesteel.checkpoint import layout
from firesteel.checkpoint.manifest import Manifest
from firesteel.checkpoint.restore_point import RestorePoint, load, point_of, verify
from firesteel.checkpoint.storage import Storage, open_storage, shown
from firesteel.common.errors import (
    CorruptStateError,
    FileMissingError,
    JobTakenOverError,
    NoSuchSnapshotError,
    StorageError,
)

__all__ = ["JobCheckpoints", "JobDirectory", "jobs_in"]


@dataclass(frozen=True, slots=True)
class JobDirectory:
    """Whose checkpoints a directory holds."""

    job_id: str
    job_name: str

    def encode(self) -> bytes:
        """The content of the file that says it."""
        return (json.dumps(dataclasses.asdict(self), indent=1) + "\n").encode()

    @staticmethod
    def decode(data: bytes, file: str) -> JobDirectory:
        """Read the file that says it."""
        try:
            fields = json.loads(data)
            return JobDirectory(str(fields["job_id"]), str(fields["job_name"]))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptStateError("this file does not say whose directory it is", file=file) from error


def jobs_in(storage: Storage) -> list[JobDirectory]:
    """The jobs that have checkpoints below a checkpoint directory."""
    found = []
    for name in storage.list():
        marker = f"{name}/{layout.JOB_MARKER}"
        if storage.exists(marker):
            found.append(JobDirectory.decode(storage.read(marker), marker))
    return found


class JobCheckpoints:
    """The checkpoints of one job below a checkpoint directory.

    ``storage`` is the checkpoint directory; without one, a `MemoryStorage`, and all state is inline.
    """

    def __init__(self, storage: Storage, job_id: str, job_name: str = "", retained: int = 1) -> None:
        if retained < 1:
            raise ValueError(f"at least one checkpoint must be retained, got {retained}")
        self._storage = storage.at(job_id)
        self._owner = JobDirectory(job_id, job_name)
        self._retained = retained
        self._known: dict[int, Manifest] = {}
        #: The number of this driver among those that worked on the job, 0 before `claim`.
        self.epoch = 0
        self._claim = ""  # the file of that number

    @property
    def root(self) -> str:
        """The directory that files of this job's checkpoints are relative to; empty in memory."""
        return self._storage.uri

    @property
    def storage(self) -> Storage:
        """The storage of `root`."""
        return self._storage

    # ---- who works on the job

    def claim(self, who: str = "") -> int:
        """Take the job over from drivers before this one; they can publish nothing from now on.

        A directory that belongs to another job is refused. ``who`` is a note for people.
        """
        self._take_possession()
        while True:
            epoch = self.newest_epoch() + 1
            claim = layout.epoch_file(epoch)
            try:
                self._storage.publish(claim, who.encode())
            except StorageError:
                if not self._storage.exists(claim):
                    raise
            names = self._storage.list()
            if layout.JOB_MARKER not in names:
                self._storage.delete(claim)
                raise JobTakenOverError(
                    f"{shown(self.root)} was deleted while this driver claimed job {self._owner.job_id} "
                    f"({self._owner.job_name}): another driver has ended the job; start it again if it shall run anew"
                )
            if [name for name in names if (layout.epoch_of_file(name) or 0) >= epoch] == [claim]:
                break
        self.epoch, self._claim = epoch, claim
        for name in names:
            older = layout.epoch_of_file(name)
            if older is not None and older < epoch:
                self._storage.delete(name)
        return epoch

    def newest_epoch(self) -> int:
        """How many drivers have claimed the job; 0 when its directory is new, or the job has ended."""
        return max(_numbers(self._storage.list(), layout.epoch_of_file), default=0)

    def check_not_taken_over(self) -> None:
        """Raise `JobTakenOverError` when another driver has claimed the job since."""
        names = self._storage.list()
        newest = max(_numbers(names, layout.epoch_of_file), default=0)
        if newest > self.epoch:
            raise JobTakenOverError(
                f"another driver runs job {self._owner.job_id} ({self._owner.job_name}) now: it claimed "
                f"{shown(self.root)} as number {newest}, this driver is number {self.epoch} and stops"
            )
        if self._claim and self._claim not in names:
            raise JobTakenOverError(
                f"this driver runs job {self._owner.job_id} ({self._owner.job_name}) no longer: its claim, number "
                f"{self.epoch}, is gone from {shown(self.root)}; another driver has ended the job, or somebody has "
                "deleted the directory"
            )

    def _take_possession(self) -> None:
        if not self._storage.exists(layout.JOB_MARKER):
            try:
                self._storage.publish(layout.JOB_MARKER, self._owner.encode())
                return
            except StorageError:
                if not self._storage.exists(layout.JOB_MARKER):
                    raise
        found = JobDirectory.decode(self._storage.read(layout.JOB_MARKER), layout.JOB_MARKER)
        if found != self._owner:
            raise StorageError(
                f"{shown(self.root)} belongs to another job, {found.job_name!r} ({found.job_id}); this is "
                f"{self._owner.job_name!r} ({self._owner.job_id}); choose another checkpoint directory or job id"
            )

    # ---- completing

    def publish(self, manifest: Manifest) -> str:
        """Complete a checkpoint: from now on the job can go on from it. Returns its directory."""
        self.check_not_taken_over()
        manifest = dataclasses.replace(manifest, epoch=self.epoch, root="..")
        self._storage.publish(layout.metadata_file(manifest.checkpoint_id), manifest.encode())
        self.check_not_taken_over()
        self._known[manifest.checkpoint_id] = manifest
        return self._storage.at(layout.checkpoint_directory(manifest.checkpoint_id)).uri

    def publish_savepoint(self, manifest: Manifest, directory: str) -> str:
        """Complete a savepoint in its directory, which it returns; the job may have to go on from it (L23)."""
        self.check_not_taken_over()
        storage = open_storage(directory)
        manifest = dataclasses.replace(manifest, epoch=self.epoch, root=".")
        storage.publish(layout.METADATA, manifest.encode())
        pointer = json.dumps({"location": storage.uri}) + "\n"
        self._storage.publish(layout.savepoint_pointer(manifest.checkpoint_id), pointer.encode())
        self.check_not_taken_over()
        return storage.uri

    # ---- finding

    def completed(self) -> list[int]:
        """The ids of complete checkpoints, newest first; savepoints are not among them."""
        found = _numbers(self._storage.list(), layout.checkpoint_of_directory)
        return sorted((id for id in found if self._storage.exists(layout.metadata_file(id))), reverse=True)

    def to_go_on_from(self) -> list[int]:
        """The ids of all checkpoints and savepoints that the job may have to go on from, readable or not."""
        return sorted([*self.completed(), *self._pointers()], reverse=True)

    def next_id(self) -> int:
        """An id that no checkpoint or savepoint of this job has used, complete or not."""
        names = self._storage.list()
        used = _numbers(names, layout.checkpoint_of_directory) + _numbers(names, layout.checkpoint_of_pointer)
        used += _numbers(self._storage.list(layout.SHARED), layout.checkpoint_of_file)
        return max(used, default=0) + 1

    def newest_valid(self, warn: Callable[[str], object], *, deep: bool = False) -> RestorePoint | None:
        """The newest checkpoint or savepoint that can be used; ``warn`` hears of newer ones that cannot.

        Without ``deep`` only manifests and lengths of files are checked; what is damaged inside a file shows when a
        task reads it.
        """
        points, problems = self._load_all()
        for point in sorted(points, key=_age, reverse=True):
            try:
                verify(point, self._storage if point.root == self.root else None, deep=deep)
            except (CorruptStateError, FileMissingError) as error:
                problems[point.manifest.checkpoint_id] = error
                continue
            _report(problems, point.manifest.checkpoint_id, warn)
            return point
        _report(problems, None, warn)
        return None

    def _load_all(self) -> tuple[list[RestorePoint], dict[int, Exception]]:
        points: list[RestorePoint] = []
        problems: dict[int, Exception] = {}
        for id in self.completed():
            try:
                points.append(self._load_checkpoint(id))
            except (CorruptStateError, FileMissingError) as error:
                problems[id] = error
        for id in self._pointers():
            try:
                points.append(self._load_savepoint(id))
            except (CorruptStateError, FileMissingError, NoSuchSnapshotError) as error:
                problems[id] = error
        return points, problems

    def _load_checkpoint(self, id: int) -> RestorePoint:
        data = self._storage.read(layout.metadata_file(id))
        if self.root:
            return point_of(self._storage.at(layout.checkpoint_directory(id)), data)
        return RestorePoint(Manifest.decode(data, layout.metadata_file(id)), "")

    def _load_savepoint(self, id: int) -> RestorePoint:
        pointer = layout.savepoint_pointer(id)
        try:
            location = json.loads(self._storage.read(pointer))["location"]
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptStateError("this file does not say where the savepoint is", file=pointer) from error
        return load(location)

    def _pointers(self) -> list[int]:
        return _numbers(self._storage.list(), layout.checkpoint_of_pointer)

    # ---- deleting

    def subsume(self, needed_from: int | None = None) -> None:
        """Delete what the newest complete checkpoints have made superfluous; call it after a completion.

        Checkpoints that are still being written may build upon complete ones that would go now: with
        ``needed_from`` these and all newer ones stay.
        """
        self.check_not_taken_over()
        kept = self._to_keep(needed_from)
        if not kept:
            return
        newest = max(kept)
        referenced = {file for manifest in kept.values() for file in manifest.files}
        ids = [id for id in _numbers(self._storage.list(), layout.checkpoint_of_directory) if id <= newest]
        for id in ids:
            if id not in kept:
                self._storage.delete(layout.metadata_file(id))
        for id in ids:
            self._clean_directory(id, id in kept, referenced)
        self._clean_shared(newest, referenced)
        for id in self._superseded_pointers(newest):
            self._storage.delete(layout.savepoint_pointer(id))
        self._known = kept

    def discard_incomplete(self, checkpoint_id: int) -> None:
        """Delete the files of a checkpoint that was given up; a complete one stays."""
        self.check_not_taken_over()  # the next driver may use the same id
        if self._storage.exists(layout.metadata_file(checkpoint_id)):
            return
        self._storage.delete_directory(layout.checkpoint_directory(checkpoint_id))
        for name in self._storage.list(layout.SHARED):
            if layout.checkpoint_of_file(name) == checkpoint_id:
                self._storage.delete(f"{layout.SHARED}/{name}")

    def forget_savepoint(self, checkpoint_id: int) -> None:
        """Never go on from a savepoint that was given up before it was complete; its files stay."""
        self.check_not_taken_over()  # the next driver may have gone on from it
        self._storage.delete(layout.savepoint_pointer(checkpoint_id))

    def delete_all(self) -> None:
        """Delete all checkpoints of the job; savepoints stay."""
        self.check_not_taken_over()
        self._known = {}
        self._storage.delete_directory()

    def begin_anew(self) -> None:
        """Delete what an earlier run of the job has left, which has finished; savepoints stay. Claim the job before."""
        self.check_not_taken_over()
        ids = _numbers(self._storage.list(), layout.checkpoint_of_directory)
        for id in ids:
            self._storage.delete(layout.metadata_file(id))
        for id in self._pointers():
            self._storage.delete(layout.savepoint_pointer(id))
        for directory in [*map(layout.checkpoint_directory, ids), layout.SHARED]:
            self._storage.delete_directory(directory)

    def _to_keep(self, needed_from: int | None) -> dict[int, Manifest]:
        """Manifests by id: the newest ones that can be read, as many as are to be retained, and those needed."""
        manifests = []
        for id in self.completed():
            try:
                manifests.append(self._known.get(id) or self._load_checkpoint(id).manifest)
            except CorruptStateError:
                continue  # of no use to anybody
        manifests.sort(key=lambda manifest: (manifest.epoch, manifest.checkpoint_id), reverse=True)
        return {
            manifest.checkpoint_id: manifest
            for place, manifest in enumerate(manifests)
            if place < self._retained or (needed_from is not None and manifest.checkpoint_id >= needed_from)
        }

    def _clean_directory(self, id: int, is_kept: bool, referenced: set[str]) -> None:
        directory = layout.checkpoint_directory(id)
        names = self._storage.list(directory)
        needed = [name for name in names if f"{directory}/{name}" in referenced]
        if not is_kept and not needed:
            self._storage.delete_directory(directory)
            return
        for name in names:
            if name not in needed and name != layout.METADATA:
                self._storage.delete(f"{directory}/{name}")

    def _clean_shared(self, newest: int, referenced: set[str]) -> None:
        for name in self._storage.list(layout.SHARED):
            id = layout.checkpoint_of_file(name)
            path = f"{layout.SHARED}/{name}"
            if id is not None and id <= newest and path not in referenced:
                self._storage.delete(path)

    def _superseded_pointers(self, newest_checkpoint: int) -> list[int]:
        pointers = self._pointers()
        newest = max([newest_checkpoint, *pointers])
        return [id for id in pointers if id < newest]


def _age(point: RestorePoint) -> tuple[int, int]:
    return point.manifest.epoch, point.manifest.checkpoint_id


def _numbers(names: Iterable[str], number_of: Callable[[str], int | None]) -> list[int]:
    return [number for name in names if (number := number_of(name)) is not None]


def _report(problems: dict[int, Exception], chosen: int | None, warn: Callable[[str], object]) -> None:
    for id, error in sorted(problems.items(), reverse=True):
        if chosen is None:
            warn(f"checkpoint {id} cannot be used: {error}; there is no older one to go on from")
        elif id > chosen:
            warn(
                f"checkpoint {id} cannot be used: {error}; going on from checkpoint {chosen} instead: what happened "
                "between the two is done again"
            )
