import json

import pytest

from firesteel.checkpoint import layout
from firesteel.checkpoint.blocks import StateFileWriter, file_header
from firesteel.checkpoint.manifest import Manifest, OperatorState
from firesteel.checkpoint.repository import DirectoryOwner, JobCheckpoints, jobs_in
from firesteel.checkpoint.storage import MemoryStorage, open_storage
from firesteel.checkpoint.stored_checkpoint import dispose, load, verify
from firesteel.common.errors import (
    CheckpointError,
    CorruptStateError,
    JobTakenOverError,
    NoSuchSnapshotError,
    StateError,
    StorageError,
)
from firesteel.plan.state_handles import CheckpointKind, OperatorHandle

JOB = "0123456789abcdef0123456789abcdef"


@pytest.fixture(params=["memory", "local"])
def base(request, tmp_path):
    if request.param == "local":
        yield str(tmp_path / "checkpoints")
    else:
        yield "memory://repository/checkpoints"
        MemoryStorage.forget("memory://repository")


@pytest.fixture
def job(base):
    return driver(base)


def driver(base, retained=1, **options):
    checkpoints = JobCheckpoints(open_storage(base), JOB, "job", retained, **options)
    checkpoints.claim()
    return checkpoints


def write_state(storage, file, payload=b"state"):
    """One segment in a new file."""
    output = storage.create(file)
    writer = StateFileWriter(file).segment()
    output.write(file_header() + writer.add(payload))
    output.close()
    return writer.finish()


def manifest_of(checkpoint_id, *segments, kind=CheckpointKind.CHECKPOINT):
    handle = OperatorHandle("op", 0, keyed=segments)
    return Manifest(
        JOB, "job", checkpoint_id, 1000, kind, (OperatorState("op", "Op", 1, 128, None, (handle,)),)
    )


def complete(job, checkpoint_id, *earlier, directory=None):
    """Write a file and publish a checkpoint that refers to it and to earlier segments; returns the new segment."""
    directory = layout.checkpoint_directory(checkpoint_id) if directory is None else directory
    segment = write_state(job.storage, layout.state_file(directory, 0, 0, 0, checkpoint_id))
    job.publish(manifest_of(checkpoint_id, *earlier, segment))
    return segment


def files_of(job):
    """Every state file and manifest of the job."""
    found = []
    for name in job.storage.list():
        found += [f"{name}/{inner}" for inner in job.storage.list(name)]
    return found


def no_warning(text):
    raise AssertionError(text)


def save(job, base, checkpoint_id):
    directory = layout.savepoint_directory(f"{base}-savepoints", JOB)
    segment = write_state(open_storage(directory), layout.state_file("", 0, 0, 0, checkpoint_id))
    return job.publish_savepoint(
        manifest_of(checkpoint_id, segment, kind=CheckpointKind.SAVEPOINT), directory
    )


# --- complete and find


def test_nothing_there_at_first(job):
    assert job.completed() == []
    assert job.newest_valid(no_warning) is None
    assert job.next_id() == 1


def test_published_checkpoint_is_the_newest(job, base):
    complete(job, 1)
    complete(job, 2)
    point = job.newest_valid(no_warning)
    assert point.manifest.checkpoint_id == 2
    assert point.manifest.epoch == 1
    assert point.root == job.root == f"{base}/{JOB}"
    assert job.completed() == [2, 1]
    assert point.to_restore().checkpoint_id == 2


def test_checkpoint_without_manifest_is_not_complete(job):
    complete(job, 1)
    write_state(job.storage, "chk-2/0-0-0-2")
    write_state(job.storage, "shared/0-0-0-5")
    assert job.completed() == [1]
    assert job.next_id() == 6, "ids of checkpoints that were aborted are not used again"


def test_checkpoint_is_published_once(job):
    complete(job, 1)
    with pytest.raises(StorageError, match="exists already"):
        job.publish(manifest_of(1))


def test_checkpoints_in_the_memory_of_the_master():
    job = JobCheckpoints(MemoryStorage(), JOB, "job")
    job.claim()
    job.publish(manifest_of(1))
    job.publish(manifest_of(2))
    job.subsume()
    point = job.newest_valid(no_warning)
    assert (point.manifest.checkpoint_id, point.root, job.completed()) == (2, "", [2])


# --- damage


def replace(storage, path, content):
    storage.delete(path)
    storage.publish(path, content)


def damage_manifest(job, id):
    path = layout.metadata_file(id)
    replace(job.storage, path, job.storage.read(path)[:-10])


def damage_missing(job, id):
    job.storage.delete(f"chk-{id}/0-0-0-{id}")


def damage_short(job, id):
    path = f"chk-{id}/0-0-0-{id}"
    replace(job.storage, path, job.storage.read(path)[:-1])


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (damage_manifest, "checksum of the manifest"),
        (damage_missing, "chk-2/0-0-0-2: the file is missing"),
        (damage_short, "the file ends here, 30 bytes are needed"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_damaged_newest_checkpoint_is_skipped_with_a_warning(job, damage, reason):
    complete(job, 1)
    complete(job, 2)
    damage(job, 2)
    warnings = []
    assert job.newest_valid(warnings.append).manifest.checkpoint_id == 1
    assert len(warnings) == 1
    assert "checkpoint 2 cannot be used" in warnings[0]
    assert reason in warnings[0]
    assert "resuming from checkpoint 1" in warnings[0]


def test_changed_byte_inside_a_file_is_found_by_a_deep_look(job):
    complete(job, 1)
    complete(job, 2)
    path = "chk-2/0-0-0-2"
    replace(job.storage, path, job.storage.read(path)[:-1] + b"?")
    assert job.newest_valid(no_warning).manifest.checkpoint_id == 2
    warnings = []
    assert job.newest_valid(warnings.append, deep=True).manifest.checkpoint_id == 1
    assert "the checksum of the block does not match" in warnings[0]


def test_no_checkpoint_can_be_used(job):
    complete(job, 1)
    damage_manifest(job, 1)
    warnings = []
    assert job.newest_valid(warnings.append) is None
    assert "no older one" in warnings[0]


def test_damaged_older_checkpoint_is_nobodys_business(job):
    complete(job, 1)
    complete(job, 2)
    damage_manifest(job, 1)
    assert job.newest_valid(no_warning).manifest.checkpoint_id == 2


# --- retention


def test_older_checkpoints_go(job):
    for id in range(1, 4):
        complete(job, id)
        job.subsume()
    assert job.completed() == [3]
    assert files_of(job) == ["chk-3/0-0-0-3", "chk-3/_metadata"]


def test_retained_number(base):
    job = driver(base, retained=2)
    for id in range(1, 5):
        complete(job, id)
        job.subsume()
    assert job.completed() == [4, 3]


def test_files_that_a_retained_manifest_refers_to_stay(job):
    full = complete(job, 1, directory="shared")
    delta = complete(job, 2, full, directory="shared")
    unused = complete(job, 3, directory="shared")
    complete(job, 4, full, delta)
    job.subsume()
    assert set(files_of(job)) == {"chk-4/_metadata", "chk-4/0-0-0-4", full.file, delta.file}
    assert unused.file not in files_of(job)
    verify(job.newest_valid(no_warning), deep=True)


def test_file_in_the_directory_of_a_checkpoint_that_is_gone_stays_while_it_is_needed(job):
    first = complete(job, 1)
    complete(job, 2, first)
    job.subsume()
    assert job.completed() == [2]
    assert first.file in files_of(job)
    complete(job, 3)
    job.subsume()
    assert files_of(job) == ["chk-3/0-0-0-3", "chk-3/_metadata"]


def test_files_of_newer_checkpoints_stay(job):
    complete(job, 1)
    complete(job, 2)
    write_state(job.storage, "chk-3/0-0-0-3")
    write_state(job.storage, "shared/0-0-0-3")
    job.subsume()
    assert {"chk-3/0-0-0-3", "shared/0-0-0-3"} <= set(files_of(job))


def test_files_of_older_checkpoints_that_never_completed_go(job):
    write_state(job.storage, "chk-1/0-0-0-1")
    write_state(job.storage, "shared/0-0-0-1")
    write_state(job.storage, "chk-2/7-0-0-2")
    complete(job, 2)
    job.subsume()
    assert files_of(job) == ["chk-2/0-0-0-2", "chk-2/_metadata"]


def test_checkpoints_that_newer_ones_may_build_upon_stay(job):
    first = complete(job, 1, directory="shared")
    complete(job, 2, directory="shared")
    job.subsume(needed_from=1)
    assert job.completed() == [2, 1]
    complete(job, 3, first, directory="shared")
    job.subsume()
    assert job.completed() == [3]
    verify(job.newest_valid(no_warning), deep=True)


def test_manifests_are_deleted_before_files(job):
    """Files of one checkpoint may belong to the next one too; both may go in the same moment."""
    first = complete(job, 1)
    complete(job, 2, first)
    complete(job, 3)
    deleted = []

    class Recording:
        def __getattr__(self, name):
            if name.startswith("delete"):
                return lambda path: (deleted.append(path), getattr(storage, name)(path))
            return getattr(storage, name)

    storage, job._storage = job._storage, Recording()
    job.subsume()
    assert sorted(deleted[:2]) == ["chk-1/_metadata", "chk-2/_metadata"]
    assert sorted(deleted[2:]) == ["chk-1", "chk-2"]


def test_unknown_files_stay(job):
    job.storage.publish("shared/README", b"")
    complete(job, 1)
    job.subsume()
    assert job.storage.exists("shared/README")


def test_damaged_checkpoint_does_not_count_as_retained(base):
    job = driver(base, retained=2)
    for id in (1, 2, 3):
        complete(job, id)
    damage_manifest(job, 2)
    again = driver(base, retained=2)
    again.subsume()
    assert again.completed() == [3, 1]


def test_second_driver_knows_what_the_first_one_retained(base):
    full = complete(driver(base), 1, directory="shared")
    job = driver(base, retained=2)
    complete(job, 2, full)
    job.subsume()
    assert full.file in files_of(job)


def test_discarded_checkpoint_leaves_nothing(job):
    complete(job, 1)
    write_state(job.storage, "chk-2/0-0-0-2")
    write_state(job.storage, "shared/0-0-0-2")
    before = files_of(job)
    job.discard_incomplete(1)
    assert files_of(job) == before, "it is complete"
    job.discard_incomplete(2)
    assert files_of(job) == ["chk-1/0-0-0-1", "chk-1/_metadata"]


def test_delete_all(job, base):
    complete(job, 1)
    job.delete_all()
    assert open_storage(base).list() == []


def test_at_least_one_is_retained(base):
    with pytest.raises(ValueError, match="at least one"):
        JobCheckpoints(open_storage(base), JOB, retained=0)


# --- whose directory, whose job


def test_directory_of_another_job_is_refused(job, base):
    other = JobCheckpoints(open_storage(base), JOB, "other job")
    with pytest.raises(StateError, match=rf"belongs to another job, 'job' \({JOB}\); this is 'other job'"):
        other.claim()


def test_jobs_of_a_directory(job, base):
    storage = open_storage(base)
    JobCheckpoints(storage, "ff", "second").claim()
    storage.publish("something/else", b"")
    assert jobs_in(storage) == [DirectoryOwner(JOB, "job"), DirectoryOwner("ff", "second")]


def test_marker_that_nobody_can_read(job):
    replace(job.storage, layout.JOB_MARKER, b"[]")
    with pytest.raises(CorruptStateError, match="_job"):
        job.claim()


def test_older_driver_can_do_nothing_any_more(job, base):
    complete(job, 1)
    newer = driver(base)
    assert (job.epoch, newer.epoch) == (1, 2)
    for action in (
        lambda: job.publish(manifest_of(2)),
        lambda: job.publish_savepoint(manifest_of(2), f"{base}-savepoints/x"),
        job.subsume,
        job.delete_all,
        lambda: job.discard_incomplete(5),
    ):
        with pytest.raises(
            JobTakenOverError, match=r"another driver runs job .* as number 2, this driver is number 1"
        ):
            action()
    assert newer.completed() == [1]
    complete(newer, 2)


def test_driver_that_is_overtaken_while_it_publishes_notices(base):
    """The newer driver claims after the first look and reads before the manifest appears."""
    job = driver(base)
    complete(job, 1)
    found = []

    class Slow:
        def __getattr__(self, name):
            return getattr(storage, name)

        def publish(self, path, content):
            newer = driver(base)
            found.append(newer.newest_valid(no_warning).manifest.checkpoint_id)
            found.append(newer.next_id())
            storage.publish(path, content)

    storage, job._storage = job._storage, Slow()
    write_state(storage, "chk-2/0-0-0-2")
    with pytest.raises(JobTakenOverError):
        job.publish(manifest_of(2))
    assert found == [1, 3], "the newer driver resumed from checkpoint 1 and will not use id 2"


def test_checkpoints_of_a_newer_driver_are_newer_whatever_their_ids(base):
    first, zombie = driver(base), driver(base)
    complete(zombie, 5)
    second = driver(base)
    complete(second, 3)
    assert first.epoch < zombie.epoch < second.epoch
    assert second.newest_valid(no_warning).manifest.checkpoint_id == 3


class ClaimsOfOthers(MemoryStorage):
    """Before each claim gets there, others do what ``before`` says; names are never refused, as in object stores."""

    def __init__(self, files=None, prefix="", before=()):
        super().__init__(files, prefix)
        self.before = list(before)

    def at(self, directory):
        return ClaimsOfOthers(self.files, f"{self._prefix}{directory}/", self.before)

    def publish(self, path, content):
        if layout.epoch_of_file(path) is not None and self.before:
            self.before.pop(0)(self)
        super().publish(path, content)


def claims(job):
    return [name.rpartition("-")[0] for name in job.storage.list() if layout.epoch_of_file(name) is not None]


def test_drivers_that_claim_at_the_same_time_get_different_epochs():
    def other(storage):
        MemoryStorage.publish(storage, "epoch-1-ab", b"the other one")

    job = JobCheckpoints(ClaimsOfOthers(before=[other]), JOB, "job")
    assert job.claim() == 2
    assert claims(job) == ["epoch-2"]


def test_driver_whose_claim_comes_late_does_not_use_the_number_of_a_driver_that_is_gone():
    def others(storage):  # number 1 has been and gone while this driver made up its mind
        MemoryStorage.publish(storage, "epoch-2-ab", b"the other one")

    job = JobCheckpoints(ClaimsOfOthers(before=[others]), JOB, "job")
    assert job.claim() == 3


def test_driver_does_not_claim_a_job_that_another_one_has_ended_meanwhile():
    def other(storage):
        storage.delete_directory()

    job = JobCheckpoints(ClaimsOfOthers(before=[other]), JOB, "job")
    with pytest.raises(
        JobTakenOverError, match=r"was deleted while this driver claimed job .*start it again"
    ):
        job.claim()
    assert job.storage.list() == [], "nor does it leave anything"
    assert job.claim() == 1


def test_driver_completes_nothing_after_a_newer_one_has_ended_the_job(base):
    old = driver(base)
    newer = driver(base)
    complete(newer, 1)
    newer.delete_all()
    with pytest.raises(
        JobTakenOverError, match=r"its claim, number 1, is gone from .*; another driver has ended"
    ):
        complete(old, 1)
    driver(base)  # the job is started again, and its driver is number 1, too
    with pytest.raises(JobTakenOverError, match="is gone"):
        complete(old, 2)


def test_epochs_of_directories_without_names_of_their_own_still_count(base):
    storage = open_storage(base).at(JOB)
    storage.publish("epoch-7", b"")
    assert driver(base).epoch == 8


# --- savepoints


def test_savepoint_is_part_of_the_recovery_chain_until_a_newer_checkpoint(job, base):
    complete(job, 1)
    location = save(job, base, 2)
    point = job.newest_valid(no_warning)
    assert (point.manifest.checkpoint_id, point.root) == (2, location)
    assert point.manifest.root == "."
    job.subsume()
    assert job.newest_valid(no_warning).manifest.checkpoint_id == 2
    assert job.completed() == [1]
    assert job.next_id() == 3
    complete(job, 3)
    job.subsume()
    assert job.newest_valid(no_warning).manifest.checkpoint_id == 3
    assert [name for name in job.storage.list() if name.startswith("savepoint")] == []
    verify(load(location), deep=True)


def test_file_that_points_to_a_savepoint_keeps_its_format(job, base):
    location = save(job, base, 2)
    pointer = json.loads(job.storage.read("savepoint-of-2"))
    directory_id = open_storage(location.rpartition("/")[0]).directory_id()
    assert list(pointer.items()) == [("location", location), ("place", directory_id), ("epoch", 1)]


def test_only_the_newest_savepoint_counts(job, base):
    complete(job, 1)
    save(job, base, 2)
    save(job, base, 3)
    job.subsume()
    assert [name for name in job.storage.list() if name.startswith("savepoint")] == ["savepoint-of-3"]


def test_savepoint_that_the_user_removed_is_skipped_with_a_warning(job, base):
    complete(job, 1)
    dispose(save(job, base, 2))
    warnings = []
    assert job.newest_valid(warnings.append).manifest.checkpoint_id == 1
    assert "checkpoint 2 cannot be used: there is no checkpoint or savepoint at" in warnings[0]


def test_savepoints_get_new_directories_with_the_beginning_of_the_job_id(base):
    one, two = (layout.savepoint_directory(base, JOB) for _ in range(2))
    assert one != two
    assert one.startswith(f"{base}/savepoint-012345-")


def test_load_takes_directories_and_metadata_files_of_both_kinds(job, base):
    complete(job, 1)
    location = save(job, base, 2)
    for form in (location, f"{location}/", f"{location}/_metadata"):
        manifest, root, _ = load(form)
        assert (manifest.checkpoint_id, root) == (2, location)
    for form in (f"{job.root}/chk-1", f"{job.root}/chk-1/_metadata"):
        manifest, root, _ = load(form)
        assert (manifest.checkpoint_id, root) == (1, job.root)
        verify(load(form), deep=True)


def test_moved_savepoint_is_complete(job, base, tmp_path):
    location = save(job, base, 2)
    source, target = open_storage(location), open_storage(str(tmp_path / "elsewhere"))
    for name in source.list():
        target.publish(name, source.read(name))
    source.delete_directory()
    verify(load(target.uri), deep=True)


def test_load_explains_what_is_there_instead(job, base):
    complete(job, 1)
    complete(job, 12)
    location = save(job, base, 13)
    with pytest.raises(NoSuchSnapshotError, match="nowhere: it does not exist or is empty; give a savepoint"):
        load(f"{base}/nowhere")
    with pytest.raises(
        NoSuchSnapshotError, match=rf"holds the checkpoints of a job .* such as .*/{JOB}/chk-12$"
    ):
        load(job.root)
    with pytest.raises(NoSuchSnapshotError, match=r"holds savepoints \(savepoint-012345-"):
        load(f"{base}-savepoints")
    write_state(job.storage, "chk-13/0-0-0-13")
    with pytest.raises(
        NoSuchSnapshotError, match="no complete checkpoint or savepoint: it has no file _metadata"
    ):
        load(f"{job.root}/chk-13")
    open_storage(location).delete("_metadata")
    open_storage(location).publish("_metadata", b"damaged")
    with pytest.raises(CorruptStateError, match="_metadata"):
        load(location)


def test_dispose_deletes_a_savepoint_and_nothing_else(job, base):
    complete(job, 1)
    location = save(job, base, 2)
    write_state(open_storage(location), "9-0-0-2")
    dispose(location)
    assert open_storage(location).list() == []
    location = save(job, base, 3)
    open_storage(location).publish("notes.txt", b"")
    dispose(location)
    assert open_storage(location).list() == ["notes.txt"]
    with pytest.raises(StateError, match=f"is a checkpoint of job {JOB}, not a savepoint"):
        dispose(f"{job.root}/chk-1")
    assert job.completed() == [1]


# --- looks that contradict what is known


def away(tmp_path, job):
    """Take the volume away; what is left is the directory that it was mounted on."""
    (tmp_path / "checkpoints").rename(tmp_path / "away")
    (tmp_path / "checkpoints").mkdir()


def back(tmp_path):
    for path in (tmp_path / "checkpoints").rglob("*"):
        assert path.is_dir(), f"{path} was written to where it is hidden"
    (tmp_path / "checkpoints").rename(tmp_path / "underneath")
    (tmp_path / "away").rename(tmp_path / "checkpoints")


@pytest.fixture
def local(tmp_path):
    return driver(str(tmp_path / "checkpoints"))


def test_driver_whose_volume_is_away_has_lost_nothing(tmp_path, local):
    complete(local, 1)
    away(tmp_path, local)
    for use in (
        local.check_not_taken_over,
        lambda: local.newest_valid(no_warning),
        lambda: local.publish(manifest_of(2)),
        lambda: local.subsume(),
        lambda: local.delete_all(),
        lambda: local.completed(),
    ):
        with pytest.raises(StorageError, match="is another directory now: is a volume not mounted"):
            use()
    back(tmp_path)
    assert local.newest_valid(no_warning).manifest.checkpoint_id == 1
    complete(local, 2)


def test_driver_whose_checkpoint_directory_is_gone_has_lost_nothing(tmp_path, local):
    (tmp_path / "checkpoints").rename(tmp_path / "away")
    with pytest.raises(StorageError, match="which is gone: is a volume not mounted"):
        local.check_not_taken_over()
    (tmp_path / "away").rename(tmp_path / "checkpoints")
    complete(local, 1)


def test_state_that_was_written_while_the_volume_was_away_is_not_published(tmp_path, local):
    (tmp_path / "checkpoints").rename(tmp_path / "away")
    segment = write_state(local.storage, "chk-1/0-0-0-1")
    (tmp_path / "checkpoints").rename(tmp_path / "underneath")
    (tmp_path / "away").rename(tmp_path / "checkpoints")
    with pytest.raises(CheckpointError, match="it refers to chk-1/0-0-0-1, which is not there"):
        local.publish(manifest_of(1, segment))
    assert local.completed() == []


class Lying(MemoryStorage):
    """Every list is empty, while it lies."""

    lies = False

    def at(self, directory):
        below = Lying(self.files, f"{self._prefix}{directory}/", f"{self._uri}/{directory}")
        below.owner = self
        return below

    owner = None

    def list(self, directory=""):
        return [] if self.lies or (self.owner is not None and self.owner.lies) else super().list(directory)


def test_list_that_is_empty_for_once_changes_nothing():
    storage = Lying(uri="memory://lying")
    job = JobCheckpoints(storage, JOB, "job")
    job.claim()
    complete(job, 1)
    storage.lies = True
    for use in (
        lambda: job.newest_valid(no_warning),
        lambda: JobCheckpoints(storage, JOB, "job").completed(),
        lambda: JobCheckpoints(storage, JOB, "job").claim(),
        job.subsume,
        job.delete_all,
    ):
        with pytest.raises(StorageError, match=r"was listed without .*, which is there"):
            use()
    storage.lies = False
    assert job.newest_valid(no_warning).manifest.checkpoint_id == 1
    MemoryStorage.forget("memory://lying")


def test_empty_list_of_a_checkpoints_directory_deletes_nothing_that_is_needed(job, monkeypatch):
    first = complete(job, 1)
    complete(job, 2, first)
    whole = type(job.storage).list
    monkeypatch.setattr(
        type(job.storage),
        "list",
        lambda self, directory="": [] if directory == "chk-1" else whole(self, directory),
    )
    job.subsume()
    assert job.storage.exists(first.file)


def test_checkpoint_of_a_driver_that_woke_up_too_late_never_counts(base):
    """Its successor has gone on from an older one, and has undone what came after that."""
    old, new = driver(base), []
    complete(old, 1)
    segment = write_state(old.storage, "chk-2/0-0-0-2")

    class Frozen:
        def __getattr__(self, name):
            return getattr(storage, name)

        def publish(self, path, content):
            new.append(driver(base))  # takes the job over, and finds checkpoint 1
            storage.publish(path, content)

    storage, old._storage = old._storage, Frozen()
    with pytest.raises(JobTakenOverError):
        old.publish(manifest_of(2, segment))
    assert new[0].newest_valid(no_warning).manifest.checkpoint_id == 1
    third = driver(base)
    assert third.newest_valid(no_warning).manifest.checkpoint_id == 1
    assert third.completed() == [1]
    complete(third, 3)
    third.subsume()
    assert not any(file.startswith("chk-2/") for file in files_of(third))


def test_savepoint_of_a_driver_that_woke_up_too_late_never_counts(base):
    """Found by the crash simulation: it did from the third driver on."""
    old = driver(base)
    complete(old, 1)
    opened, new = old._open_directory, []

    def frozen(directory):
        storage = opened(directory)
        publish = storage.publish

        def publish_late(path, content):
            new.append(driver(base))
            publish(path, content)

        storage.publish = publish_late
        return storage

    old._open_directory = frozen
    with pytest.raises(JobTakenOverError):
        save(old, base, 2)
    assert new[0].newest_valid(no_warning).manifest.checkpoint_id == 1
    third = driver(base)
    assert third.resumable_ids() == [1]
    assert third.newest_valid(no_warning).manifest.checkpoint_id == 1


def test_pointers_of_earlier_versions_name_no_driver(job, base):
    location = save(job, base, 2)
    job.storage.delete("savepoint-of-2")
    job.storage.publish("savepoint-of-2", json.dumps({"location": location}).encode())
    assert driver(base).newest_valid(no_warning).manifest.checkpoint_id == 2


def test_late_deletion_leaves_alone_what_later_checkpoints_need(job):
    first = complete(job, 1, directory="shared")
    complete(job, 2, first)
    complete(job, 3, first)
    write_state(job.storage, "shared/0-0-0-4")
    job.subsume(needed_from=1, up_to=1)
    assert job.completed() == [3, 2, 1]
    job.subsume(needed_from=2, up_to=2)
    assert (job.completed(), job.storage.exists(first.file)) == ([3, 2], True)
    assert job.storage.exists("shared/0-0-0-4")


def test_savepoint_whose_volume_is_away_is_not_taken_for_deleted(tmp_path, local):
    complete(local, 1)
    base = str(tmp_path / "checkpoints")
    location = save(local, base, 2)
    (tmp_path / "checkpoints-savepoints").rename(tmp_path / "away")
    with pytest.raises(
        StorageError, match=r"has to resume from savepoint .*is a volume not mounted\?.*delete savepoint-of-2"
    ):
        local.newest_valid(no_warning)
    (tmp_path / "away").rename(tmp_path / "checkpoints-savepoints")
    assert local.newest_valid(no_warning).location == location


def test_manifests_of_a_job_that_is_over_go_first(base):
    job = driver(base)
    complete(job, 1)
    deleted = []

    class Recording:
        def __getattr__(self, name):
            if name in ("delete", "delete_directory", "sync"):
                return lambda path="": (deleted.append((name, path)), getattr(storage, name)(path))
            return getattr(storage, name)

    storage, job._storage = job._storage, Recording()
    job.delete_all()
    assert deleted == [("delete", "chk-1/_metadata"), ("sync", "chk-1"), ("delete_directory", "")]


def test_checkpoint_to_resume_from_is_made_durable_first(base):
    """Who published it may have been killed before it was on disk, and the job commits what is in it."""
    complete(driver(base), 1)
    job, synced = driver(base), []

    class Recording:
        def __getattr__(self, name):
            if name == "sync":
                return lambda path="": (synced.append(path), storage.sync(path))
            return getattr(storage, name)

    storage, job._storage = job._storage, Recording()
    job.newest_valid(no_warning)
    assert synced == ["chk-1"]


def test_savepoint_to_resume_from_is_made_durable_with_what_refers_to_it(base, monkeypatch):
    location = save(driver(base), base, 1)
    job, synced = driver(base), []
    whole = type(job.storage).sync

    def sync(self, directory=""):
        synced.append((self.uri, directory))
        whole(self, directory)

    monkeypatch.setattr(type(job.storage), "sync", sync)
    assert job.newest_valid(no_warning).location == location
    assert synced == [(location, ""), (job.root, "")]


def lose_what_is_published(monkeypatch, job, lost):
    """Publishing succeeds, and the file is not there afterwards: it went to where a volume should be."""
    whole = type(job.storage).publish

    def publish(self, path, content):
        if lost not in path:
            whole(self, path, content)

    monkeypatch.setattr(type(job.storage), "publish", publish)


def test_manifest_that_was_written_and_is_not_there_does_not_count(job, monkeypatch):
    complete(job, 1)
    lose_what_is_published(monkeypatch, job, layout.METADATA)
    with pytest.raises(StorageError, match=r"chk-2/_metadata was written and is not there: is a volume not"):
        complete(job, 2)
    assert job.completed() == [1]
    assert job.newest_valid(no_warning).manifest.checkpoint_id == 1


@pytest.mark.parametrize("lost", [layout.METADATA, "savepoint-of-"])
def test_savepoint_of_which_something_was_written_and_is_not_there_does_not_count(
    job, base, monkeypatch, lost
):
    complete(job, 1)
    lose_what_is_published(monkeypatch, job, lost)
    with pytest.raises(StorageError, match=f"{lost}.* was written and is not there: is a volume not mounted"):
        save(job, base, 2)
    assert job.newest_valid(no_warning).manifest.checkpoint_id == 1


def test_driver_that_cannot_write_down_what_counts_does_not_begin(job, base, monkeypatch):
    lose_what_is_published(monkeypatch, job, "accepted-")
    with pytest.raises(
        StorageError, match=r"accepted-2 was written and is not there: is a volume not mounted"
    ):
        driver(base)
