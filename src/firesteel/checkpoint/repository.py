"""The checkpoints of one job, hop 11 of a checkpoint's life: publish, find the newest, delete what is not needed.

**Drivers are fenced by epochs.** A driver that starts to work on a job `claims <JobCheckpoints.claim>` the next epoch.
Object stores do not refuse the second of two writers of one name, so every claim has a name of its own, and a driver
that finds another claim of the same or a greater number beside its own tries again: of two that write at the same
time at least the later one sees the other. No two drivers continue with the same number.
`publish <JobCheckpoints.publish>` looks for a newer epoch before *and after* the manifest appears. If a newer driver
claimed before it appeared, the second look sees that and the old driver tells nobody that the checkpoint is
complete; if it claimed later, it finds the checkpoint. Either way both agree on what has been committed. Among
complete checkpoints those of a newer epoch are newer, whatever their ids. The look also misses the driver's own claim when
a newer driver has ended the job and deleted everything.

A driver that was frozen before the manifest appeared may wake up much later, and publish it when a newer one has resumed
from an older checkpoint and undone what came after that. So a driver writes down what it has found when it takes the job
over, before it does anything with it, and looks once more whether it is still its own. What appears later
with an older epoch never counts, for no driver.

**A look that contradicts what is known is trouble, not news.** A driver knows that its claim is there, that a directory
with a job in it has a marker, and which checkpoints it has completed. A list without them means that somebody has deleted
them, that the store has answered wrongly, or that the volume is not there. Only if the store says of the file itself
that it does not exist, in a directory that is still the one that was claimed (`Storage.directory_id`), it was deleted; otherwise
that is a `StorageError`, to be tried again. In the same way nothing counts as written into the directory because a
write succeeded: it may have gone to the empty mount point of a volume that was away for a moment. So
`publish <JobCheckpoints.publish>` looks for the files that the manifest refers to before it appears, and for the manifest
afterwards.

**What has appeared counts,** checkpoint or savepoint, even if its master aborted it before, because storage took too long:
another attempt or driver may have resumed from it by the time anybody notices. Only newer checkpoints replace it.

**Deleting.** A state file goes when no manifest that is kept refers to it and it belongs to a checkpoint that is not
newer than the newest complete one: newer ones are still being written. Manifests go before files, durably, so that a driver
that dies in between leaves no manifest with missing files behind. Deleting may happen beside publishing, in another
thread, as long as it has been told which checkpoint had just been completed when it was asked for.
"""

from __future__ import annotations

import dataclasses
import json
import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from firesteel.checkpoint import layout
from firesteel.checkpoint.manifest import Manifest
from firesteel.checkpoint.storage import Storage, open_storage, parent_uri, shown
from firesteel.checkpoint.stored_checkpoint import (
    StoredCheckpoint,
    load,
    retry_after_check,
    stored_checkpoint_of,
    verify,
)
from firesteel.common.errors import (
    CheckpointError,
    CorruptStateError,
    FileMissingError,
    JobTakenOverError,
    NoSuchSnapshotError,
    StateError,
    StorageError,
)

__all__ = ["DirectoryOwner", "JobCheckpoints", "jobs_in"]


@dataclass(frozen=True, slots=True)
class DirectoryOwner:
    """Whose checkpoints a directory holds."""

    job_id: str
    job_name: str

    def encode(self) -> bytes:
        """The content of the file that says it."""
        return (json.dumps(dataclasses.asdict(self), indent=1) + "\n").encode()

    @staticmethod
    def decode(data: bytes, file: str) -> DirectoryOwner:
        """Read the file that says it."""
        try:
            fields = json.loads(data)
            return DirectoryOwner(str(fields["job_id"]), str(fields["job_name"]))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptStateError("this file does not say whose directory it is", file=file) from error


@dataclass(frozen=True, slots=True)
class _SavepointPointer:
    """Where a savepoint is that the job may have to resume from, and which driver has published it.

    Files of earlier versions do not say which.
    """

    location: str
    directory_id: str | None
    epoch: float = math.inf

    def encode(self) -> bytes:
        fields = {"location": self.location, "place": self.directory_id, "epoch": self.epoch}
        return (json.dumps(fields) + "\n").encode()

    @staticmethod
    def decode(data: bytes, file: str) -> _SavepointPointer:
        try:
            fields = json.loads(data)
            return _SavepointPointer(
                str(fields["location"]), fields.get("place"), fields.get("epoch", math.inf)
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptStateError("this file does not say where the savepoint is", file=file) from error


def jobs_in(storage: Storage) -> list[DirectoryOwner]:
    """The jobs that have checkpoints below a checkpoint directory."""
    jobs = []
    for name in storage.list():
        marker = f"{name}/{layout.JOB_MARKER}"
        if storage.exists(marker):
            jobs.append(DirectoryOwner.decode(storage.read(marker), marker))
    return jobs


class JobCheckpoints:
    """The checkpoints of one job below a checkpoint directory.

    ``storage`` is the checkpoint directory; without one, a `MemoryStorage`, and all state is inline. ``open_directory``
    opens the directory of a savepoint.
    """

    def __init__(
        self,
        storage: Storage,
        job_id: str,
        job_name: str = "",
        retained: int = 1,
        open_directory: Callable[[str], Storage] = open_storage,
    ) -> None:
        if retained < 1:
            raise ValueError(f"at least one checkpoint must be retained, got {retained}")
        self._base = storage
        self._directory_id: str | None = None  # of the checkpoint directory in which the job was seen
        self._open_directory = open_directory
        self._storage = storage.at(job_id)
        self._owner = DirectoryOwner(job_id, job_name)
        self._retained = retained
        self._known: dict[int, Manifest] = {}  # complete, and not deleted by this driver
        self._lock = threading.Lock()  # guards `_known`
        #: The number of this driver among those that worked on the job, 0 before `claim`.
        self.epoch = 0
        self._claim = ""  # the file of that number
        self._anchor = ""  # a file that is known to be in the directory of the job
        self._acceptance: tuple[int, frozenset[int]] = 0, frozenset()

    @property
    def root(self) -> str:
        """The directory that files of this job's checkpoints are relative to; empty in memory."""
        return self._storage.uri

    @property
    def storage(self) -> Storage:
        """The storage of `root`."""
        return self._storage

    @property
    def has_complete(self) -> bool:
        """Whether this driver has found or completed something that the job can resume from; looks at no storage."""
        with self._lock:
            return bool(self._known) or bool(self._acceptance[1])

    # ---- who works on the job

    def claim(self, who: str = "") -> int:
        """Take the job over from drivers before this one; they can publish nothing from now on.

        A directory that belongs to another job is refused. ``who`` is a note for people.
        """
        self._claim, self.epoch = "", 0
        seen = self._directory_id if self._anchor else None
        self._anchor = ""
        self._mark_directory()
        while True:
            epoch = self.newest_epoch() + 1
            claim = layout.epoch_file(epoch)
            try:
                self._storage.publish(claim, who.encode())
            except StorageError:
                if not self._storage.exists(claim):
                    raise
            names = self._names()
            if layout.JOB_MARKER not in names:
                self._storage.delete(claim)
                raise JobTakenOverError(
                    f"{shown(self.root)} was deleted while this driver claimed job {self._owner.job_id} "
                    f"({self._owner.job_name}): another driver has ended the job; start it again if it shall run from the beginning"
                )
            if [name for name in names if (layout.epoch_of_file(name) or 0) >= epoch] == [claim]:
                break
        if seen is not None and self._directory_id != seen:
            self._directory_id, self._anchor = seen, layout.JOB_MARKER
            self._refuse_contradiction(layout.JOB_MARKER)
        self.epoch, self._claim = epoch, claim
        self._anchor = claim
        for name in names:
            older = layout.epoch_of_file(name)
            if older is not None and older < epoch:
                self._storage.delete(name)
        self._accept()
        return epoch

    def _accept(self) -> None:
        """Write down which checkpoints of earlier drivers count; what they publish from now on does not."""
        resumable = self.resumable_ids()
        file = layout.accepted_file(self.epoch)
        self._storage.publish(file, (json.dumps({"accepted": resumable}) + "\n").encode())
        self._check_written(self._storage, file)
        self._acceptance = self.epoch, frozenset(resumable)
        for name in self._names():  # which raises when a newer driver may have seen more, or less
            older = layout.epoch_of_accepted(name)
            if older is not None and older < self.epoch:
                self._storage.delete(name)

    def _accepted(self, names: Iterable[str]) -> tuple[int, frozenset[int]]:
        """The newest driver that has written down which checkpoints of earlier ones count, and which these are."""
        newest = max(_numbers(names, layout.epoch_of_accepted), default=0)
        if newest and newest != self._acceptance[0]:
            file = layout.accepted_file(newest)
            try:
                self._acceptance = newest, frozenset(json.loads(self._storage.read(file))["accepted"])
            except (FileMissingError, ValueError, KeyError, TypeError) as error:
                raise StorageError(
                    f"{shown(self.root)}: {file} was listed and cannot be read: {error}"
                ) from error
        return self._acceptance

    def _counts(self, id: int, epoch: int) -> bool:
        newest, accepted = self._acceptance
        return epoch >= newest or id in accepted

    def newest_epoch(self) -> int:
        """How many drivers have claimed the job; 0 when its directory is new, or the job has ended."""
        return max(_numbers(self._names(), layout.epoch_of_file), default=0)

    def check_not_taken_over(self) -> None:
        """Raise `JobTakenOverError` when another driver has claimed the job since."""
        self._names()

    def _names(self) -> list[str]:
        """What is in the directory of the job; never less than what is known to be there.

        Raises `JobTakenOverError` when another driver has claimed the job since.
        """
        names = self._storage.list()
        newest = max(_numbers(names, layout.epoch_of_file), default=0)
        if self._claim and newest > self.epoch:
            raise JobTakenOverError(
                f"another driver runs job {self._owner.job_id} ({self._owner.job_name}) now: it claimed "
                f"{shown(self.root)} as number {newest}, this driver is number {self.epoch} and stops"
            )
        if self._anchor in names:
            return names
        if self._anchor:
            self._refuse_contradiction(self._anchor)
        if self._claim:
            raise JobTakenOverError(
                f"this driver runs job {self._owner.job_id} ({self._owner.job_name}) no longer: its claim, number "
                f"{self.epoch}, is gone from {shown(self.root)}; another driver has ended the job, or somebody has "
                "deleted the directory"
            )
        if layout.JOB_MARKER in names:
            self._anchor, self._directory_id = layout.JOB_MARKER, self._base.directory_id()
        elif self._storage.exists(layout.JOB_MARKER):
            raise self._contradiction(layout.JOB_MARKER)
        return names

    def _is_missing(self, file: str) -> bool:
        """Whether a file is not there, for sure: the directory was there between two looks that missed it."""
        if self._storage.exists(file):
            return False
        self._names()
        return not self._storage.exists(file)

    def _refuse_contradiction(self, file: str) -> None:
        """Raise `StorageError` unless a file that was there, and is not in a list, was deleted for sure."""
        directory_id = self._base.directory_id()
        if directory_id is None or directory_id != self._directory_id:
            raise StorageError(
                f"the checkpoints of job {self._owner.job_id} ({self._owner.job_name}) were in "
                f"{shown(self._base.uri)}, which is {'gone' if directory_id is None else 'another directory now'}: is a volume "
                "not mounted?"
            )
        if self._storage.exists(file):  # after that look: now the directory is there
            raise self._contradiction(file)

    def _contradiction(self, file: str) -> StorageError:
        return StorageError(f"{shown(self.root)} was listed without {file}, which is there")

    def _mark_directory(self) -> None:
        if not self._storage.exists(layout.JOB_MARKER):
            try:
                self._storage.publish(layout.JOB_MARKER, self._owner.encode())
                return
            except StorageError:
                if not self._storage.exists(layout.JOB_MARKER):
                    raise
        owner = DirectoryOwner.decode(self._storage.read(layout.JOB_MARKER), layout.JOB_MARKER)
        if owner != self._owner:
            raise StateError(
                f"{shown(self.root)} belongs to another job, {owner.job_name!r} ({owner.job_id}); this is "
                f"{self._owner.job_name!r} ({self._owner.job_id}); choose another checkpoint directory or job id"
            )

    # ---- completing

    def publish(self, manifest: Manifest) -> str:
        """Complete a checkpoint: from now on the job can resume from it. Returns its directory."""
        self.check_not_taken_over()
        self._check_files(self._storage, manifest)
        manifest = dataclasses.replace(manifest, epoch=self.epoch, root="..")
        metadata = layout.metadata_file(manifest.checkpoint_id)
        self._storage.publish(metadata, manifest.encode())
        self._check_written(self._storage, metadata)
        with self._lock:
            self._known[manifest.checkpoint_id] = manifest
        self.check_not_taken_over()
        return self._storage.at(layout.checkpoint_directory(manifest.checkpoint_id)).uri

    def publish_savepoint(self, manifest: Manifest, directory: str) -> str:
        """Complete a savepoint in its directory, which it returns; the job may have to resume from it (L23)."""
        self.check_not_taken_over()
        storage = self._open_directory(directory)
        self._check_files(storage, manifest)
        manifest = dataclasses.replace(manifest, epoch=self.epoch, root=".")
        storage.publish(layout.METADATA, manifest.encode())
        self._check_written(storage, layout.METADATA)
        pointer = layout.savepoint_pointer(manifest.checkpoint_id)
        directory_id = self._open_directory(parent_uri(storage.uri)).directory_id()
        self._storage.publish(pointer, _SavepointPointer(storage.uri, directory_id, self.epoch).encode())
        self._check_written(self._storage, pointer)
        self.check_not_taken_over()
        return storage.uri

    def _check_files(self, storage: Storage, manifest: Manifest) -> None:
        """Refuse a manifest of which a file is not there: deleted, or written to where a volume was not mounted."""
        listed: dict[str, list[str]] = {}
        for file in manifest.files:
            directory, _, name = file.rpartition("/")
            if directory not in listed:
                listed[directory] = storage.list(directory)
            if name not in listed[directory] and not storage.exists(file):
                raise CheckpointError(f"it refers to {file}, which is not there")

    def _check_written(self, storage: Storage, file: str) -> None:
        if not storage.exists(file):
            raise StorageError(
                f"{shown(storage.uri)}: {file} was written and is not there: is a volume not mounted?"
            )

    # ---- finding

    def completed(self) -> list[int]:
        """The ids of complete checkpoints, newest first; savepoints are not among them."""
        names = self._names()
        listed = set(_numbers(names, layout.checkpoint_of_directory))
        _, accepted = self._accepted(names)
        with self._lock:
            known = set(self._known)
        complete = [id for id in listed | known if not self._is_missing(layout.metadata_file(id))]
        return sorted(
            (id for id in complete if id in known or id in accepted or self._is_in_time(id)), reverse=True
        )

    def _is_in_time(self, id: int) -> bool:
        """Whether a checkpoint was not published by a driver that another one had replaced."""
        if not self._acceptance[0]:
            return True
        try:
            return self._counts(
                id, retry_after_check(partial(self._load_checkpoint, id), self._names).manifest.epoch
            )
        except CorruptStateError:
            return True  # for others to find out
        except FileMissingError:
            return False  # its driver lives, and has deleted it meanwhile

    def resumable_ids(self) -> list[int]:
        """The ids of all checkpoints and savepoints that the job may have to resume from, readable or not."""
        names = self._names()
        newest, accepted = self._accepted(names)
        pointers = _numbers(names, layout.checkpoint_of_pointer)
        savepoints = [id for id in pointers if id in accepted or self._is_pointer_in_time(id, newest)]
        return sorted([*self.completed(), *savepoints], reverse=True)

    def _is_pointer_in_time(self, id: int, newest: int) -> bool:
        """Whether a savepoint was not published by a driver that another one had replaced."""
        try:
            return self._read_pointer(id).epoch >= newest
        except CorruptStateError:
            return True  # for others to find out
        except FileMissingError:
            return False  # its driver lives, and has deleted it meanwhile

    def next_id(self) -> int:
        """An id that no checkpoint or savepoint of this job has used, complete or not."""
        names = self._names()
        used = _numbers(names, layout.checkpoint_of_directory) + _numbers(names, layout.checkpoint_of_pointer)
        used += _numbers(self._storage.list(layout.SHARED), layout.checkpoint_of_file)
        return max(used, default=0) + 1

    def newest_valid(self, warn: Callable[[str], object], *, deep: bool = False) -> StoredCheckpoint | None:
        """The newest checkpoint or savepoint that can be used; ``warn`` hears of newer ones that cannot.

        Without ``deep`` only manifests and lengths of files are checked; what is damaged inside a file shows when a
        task reads it.
        """
        checkpoints, problems = self._load_all()
        for stored in sorted(checkpoints, key=_age, reverse=True):
            try:
                self._verify(stored, deep)
                self._make_durable(stored)
            except (CorruptStateError, FileMissingError) as error:
                problems[stored.manifest.checkpoint_id] = error
                continue
            _report(problems, stored.manifest.checkpoint_id, warn)
            return stored
        _report(problems, None, warn)
        return None

    def _load_all(self) -> tuple[list[StoredCheckpoint], dict[int, Exception]]:
        checkpoints: list[StoredCheckpoint] = []
        problems: dict[int, Exception] = {}
        complete = self.completed()
        with self._lock:
            known = list(self._known)
        for id in known:
            if id not in complete:
                problems[id] = FileMissingError(f"{layout.metadata_file(id)} was there and does not exist")
        for id in complete:
            try:
                checkpoints.append(retry_after_check(partial(self._load_checkpoint, id), self._names))
            except (CorruptStateError, FileMissingError) as error:
                problems[id] = error
        for id in self._pointers():
            try:
                stored = self._load_savepoint(id)
                if self._counts(id, stored.manifest.epoch):
                    checkpoints.append(stored)
            except (CorruptStateError, FileMissingError, NoSuchSnapshotError) as error:
                problems[id] = error
        return checkpoints, problems

    def _load_checkpoint(self, id: int) -> StoredCheckpoint:
        data = self._storage.read(layout.metadata_file(id))
        if self.root:
            return stored_checkpoint_of(self._storage.at(layout.checkpoint_directory(id)), data)
        return StoredCheckpoint(Manifest.decode(data, layout.metadata_file(id)), "")

    def _load_savepoint(self, id: int) -> StoredCheckpoint:
        pointer = self._read_pointer(id)
        return retry_after_check(
            lambda: load(pointer.location, self._open_directory),
            lambda: self._check_directory(id, pointer.location, pointer.directory_id),
        )

    def _read_pointer(self, id: int) -> _SavepointPointer:
        file = layout.savepoint_pointer(id)
        return _SavepointPointer.decode(
            retry_after_check(lambda: self._storage.read(file), self._names), file
        )

    def _check_directory(self, id: int, location: str, directory_id: str | None) -> None:
        """Refuse to believe that a savepoint is deleted while the directory that it was written to is not there."""
        base = parent_uri(location)
        if directory_id is not None and self._open_directory(base).directory_id() != directory_id:
            raise StorageError(
                f"job {self._owner.job_id} ({self._owner.job_name}) has to resume from savepoint {shown(location)}, but "
                f"{shown(base)} is not the directory that it was: is a volume not mounted? If the savepoint was "
                f"deleted on purpose, delete {layout.savepoint_pointer(id)} in {shown(self.root)}, too"
            )

    def _verify(self, stored: StoredCheckpoint, deep: bool) -> None:
        mine = stored.root == self.root
        storage = self._storage if mine else self._open_directory(stored.root)
        retry_after_check(
            lambda: verify(stored, storage, deep=deep), self._names if mine else lambda: storage.list()
        )

    def _make_durable(self, stored: StoredCheckpoint) -> None:
        """Who published it may have died before it was on disk, and the job will commit what is in it."""
        if stored.root == self.root:
            self._storage.sync(layout.checkpoint_directory(stored.manifest.checkpoint_id))
        else:
            self._open_directory(stored.location).sync()
            self._storage.sync()

    def _pointers(self) -> list[int]:
        return _numbers(self._names(), layout.checkpoint_of_pointer)

    # ---- deleting

    def subsume(self, needed_from: int | None = None, up_to: int | None = None) -> None:
        """Delete what nobody needs now that the newest checkpoints are complete; call it after a completion.

        Checkpoints that are still being written may build upon complete ones that would go now: with
        ``needed_from`` these and all newer ones stay. ``up_to`` is the checkpoint whose completion was the reason: what
        was written for later ones stays as well, whatever has happened since.
        """
        self.check_not_taken_over()
        retained = self._to_keep(needed_from)
        if not retained:
            return
        newest = max(retained) if up_to is None else min(max(retained), up_to)
        referenced = {file for manifest in retained.values() for file in manifest.files}
        ids = [id for id in _numbers(self._names(), layout.checkpoint_of_directory) if id <= newest]
        self._delete_manifests([id for id in ids if id not in retained])
        for id in ids:
            self._clean_directory(id, id in retained, referenced)
        self._clean_shared(newest, referenced)
        for id in self._superseded_pointers(newest):
            self._storage.delete(layout.savepoint_pointer(id))

    def discard_incomplete(self, checkpoint_id: int) -> None:
        """Delete the files of a checkpoint that was aborted; a complete one stays."""
        self.check_not_taken_over()  # the next driver may use the same id
        if not self._is_missing(layout.metadata_file(checkpoint_id)):
            return
        self._storage.delete_directory(layout.checkpoint_directory(checkpoint_id))
        for name in self._storage.list(layout.SHARED):
            if layout.checkpoint_of_file(name) == checkpoint_id:
                self._storage.delete(f"{layout.SHARED}/{name}")

    def delete_all(self) -> None:
        """Delete all checkpoints of the job; savepoints stay."""
        self.check_not_taken_over()
        self._delete_manifests(_numbers(self._names(), layout.checkpoint_of_directory))
        self._storage.delete_directory()

    def delete_earlier_run(self) -> None:
        """Delete what an earlier run of the job has left, which has finished; savepoints stay. Claim the job before."""
        self.check_not_taken_over()
        ids = _numbers(self._names(), layout.checkpoint_of_directory)
        self._delete_manifests(ids)
        for id in self._pointers():
            self._storage.delete(layout.savepoint_pointer(id))
        for directory in [*map(layout.checkpoint_directory, ids), layout.SHARED]:
            self._storage.delete_directory(directory)

    def _delete_manifests(self, ids: Iterable[int]) -> None:
        """Durably: files of a checkpoint may go when it does not come back after a crash of the machine."""
        for id in ids:
            with self._lock:
                self._known.pop(id, None)
            if self._storage.exists(layout.metadata_file(id)):
                self._storage.delete(layout.metadata_file(id))
                self._storage.sync(layout.checkpoint_directory(id))

    def _to_keep(self, needed_from: int | None) -> dict[int, Manifest]:
        """Manifests by id: the newest ones that can be read, as many as are to be retained, and those needed."""
        manifests = []
        for id in self.completed():
            with self._lock:
                known = self._known.get(id)
            try:
                manifests.append(known or self._load_checkpoint(id).manifest)
            except CorruptStateError:
                continue  # of no use to anybody
        manifests.sort(key=lambda manifest: (manifest.epoch, manifest.checkpoint_id), reverse=True)
        return {
            manifest.checkpoint_id: manifest
            for rank, manifest in enumerate(manifests)
            if rank < self._retained or (needed_from is not None and manifest.checkpoint_id >= needed_from)
        }

    def _clean_directory(self, id: int, is_kept: bool, referenced: set[str]) -> None:
        directory = layout.checkpoint_directory(id)
        needed = {file for file in referenced if file.startswith(f"{directory}/")}
        if not is_kept and not needed:
            self._storage.delete_directory(directory)
            return
        for name in self._storage.list(directory):
            if f"{directory}/{name}" not in needed and name != layout.METADATA:
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


def _age(stored: StoredCheckpoint) -> tuple[int, int]:
    return stored.manifest.epoch, stored.manifest.checkpoint_id


def _numbers(names: Iterable[str], number_of: Callable[[str], int | None]) -> list[int]:
    return [number for name in names if (number := number_of(name)) is not None]


def _report(problems: dict[int, Exception], used: int | None, warn: Callable[[str], object]) -> None:
    for id, error in sorted(problems.items(), reverse=True):
        if used is None:
            warn(f"checkpoint {id} cannot be used: {error}; there is no older one to resume from")
        elif id > used:
            warn(
                f"checkpoint {id} cannot be used: {error}; resuming from checkpoint {used} instead: what happened "
                "between the two is done again"
            )
