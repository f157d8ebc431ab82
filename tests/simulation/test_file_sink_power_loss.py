"""Power losses and the file sink: nothing is lost, nothing is seen twice, and every single sync is needed for that."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from firesteel.common.errors import UserCodeError
from firesteel.connectors.files.gathered_parts import GatheredParts
from firesteel.connectors.files.part_file import CompactedPart, PartName, PendingPart
from firesteel.connectors.files.sink import FileWriter
from firesteel_support.effort import cases
from firesteel_support.file_sink_simulation import Job, World, check, simulate
from firesteel_support.simulated_objects import SimulatedObjects

SEEDS = 1000


@pytest.mark.parametrize("compacts", [False, True], ids=["plain", "compacting"])
@pytest.mark.parametrize("in_objects", [False, True], ids=["files", "objects"])
def test_every_number_is_seen_once_whenever_the_power_fails(in_objects: bool, compacts: bool) -> None:
    for seed in range(cases(SEEDS, 20_000)):
        try:
            simulate(seed, in_objects=in_objects, compacts=compacts)
        except BaseException as error:
            error.add_note(f"with seed {seed}")
            raise


def test_without_any_one_of_the_syncs_something_goes_wrong() -> None:
    syncs = sorted(set().union(*(simulate(seed) for seed in range(30))))
    assert len(syncs) == 7
    assert [place for place in syncs if not is_missed(place)] == []


def is_missed(place: str) -> bool:
    for seed in range(SEEDS):
        try:
            simulate(seed, frozenset([place]))
        except Exception:  # noqa: BLE001 - a job that fails for ever, or a wrong result
            return True
    return False


# What the simulation would notice -----------------------------------------------------------------------


def is_noticed(in_objects: bool, compacts: bool) -> bool:
    for seed in range(SEEDS):
        try:
            simulate(seed, in_objects=in_objects, compacts=compacts)
        except Exception:  # noqa: BLE001 - a job that fails for ever, or a wrong result
            return True
    return False


def test_a_hidden_object_that_is_removed_before_it_was_copied_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def removing_first(store: SimulatedObjects, old: str, new: str) -> None:
        content = store.read(old)
        store.remove(old)
        store.put(new, content)

    monkeypatch.setattr(SimulatedObjects, "rename", removing_first)
    assert is_noticed(in_objects=True, compacts=False)


def test_files_that_wait_to_be_compacted_and_are_in_no_checkpoint_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(GatheredParts, "states", lambda parts: [])
    assert is_noticed(in_objects=False, compacts=True)


@pytest.mark.parametrize("in_objects", [False, True], ids=["files", "objects"])
def test_files_that_are_removed_as_soon_as_they_were_compacted_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch, in_objects: bool
) -> None:
    compact = FileWriter._compact

    def removing(writer: FileWriter, name: PartName, group: Sequence[PendingPart]) -> CompactedPart:
        made = compact(writer, name, group)
        for part in group:
            writer._files.remove(part.name.in_progress)
        return made

    monkeypatch.setattr(FileWriter, "_compact", removing)
    assert is_noticed(in_objects, compacts=True)


# Without trouble that a seed brings ---------------------------------------------------------------------


def quiet(world: World) -> World:
    """Without the troubles that a seed brings."""
    world.files.trouble = None
    return world


def prepare(job: Job) -> None:
    """Write and commit something that the job's newest checkpoint waits for."""
    job.start()
    job.write(5)
    job.checkpoint("unheard")
    job.die("killed")
    job.start()


def goes_on(world: World, job: Job) -> None:
    """Somebody takes all files away; then the power fails, and the job goes on to its end."""
    while world.finished():
        world.take_away()
    job.lose_power()
    world.files.lose_power(kept=0.0)
    job.start()
    job.write(5)
    job.finish()
    check(world, [job])


def test_what_was_finished_and_taken_away_is_not_missed() -> None:
    for seed in range(20):
        world = quiet(World(seed))
        job = Job(world, 1)
        prepare(job)
        goes_on(world, job)


@pytest.mark.parametrize("failing_sync", range(1, 25))
def test_folders_that_somebody_left_unsynced_are_made_durable(failing_sync: int) -> None:
    """One sync fails and its attempt ends; the next one finds what the first has made."""
    world = quiet(World(3, bucket="below/2"))
    job = Job(world, 1)
    syncs = itertools.count(1)

    def trouble(what: str) -> None:
        if what == "sync" and next(syncs) == failing_sync:
            raise OSError("the disk has trouble")

    world.files.trouble = trouble
    try:
        prepare(job)
    except UserCodeError:
        job.die("killed")
        if job.has_checkpoint:
            job.start()
        else:
            prepare(job)
    goes_on(quiet(world), job)
