"""Several drivers of one job, in every order: what is committed is one history, and in the end one of them leads.

Drivers are threads of which exactly one moves at a time, from one use of storage to the next; a seed decides which. They
crash, are stopped for longer than the lease, and their storage fails before or after it has done what it was asked for. Lists
are empty that should not be, and the volume is away for a while: it seems to be empty, and what is written is not there later. In
half of the runs storage does not refuse the second of two writers of the same name, like an object store. Half of the
drivers have a time-out that is far too short, as if clocks ran wild: they take the job from leaders that live.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from firesteel.checkpoint.manifest import Manifest, OperatorState
from firesteel.checkpoint.repository import JobCheckpoints
from firesteel.checkpoint.storage import MemoryStorage
from firesteel.common.errors import JobTakenOverError, StorageError
from firesteel.common.job_id import JobID
from firesteel.jobmaster.checkpoints.takeover import master_start
from firesteel.jobmaster.leaders.campaign import Campaign
from firesteel.jobmaster.leaders.settings import HighAvailability
from firesteel.plan.state_handles import CheckpointKind
from firesteel.testing.manual_clock import ManualClock

JOB = "ab" * 16
SETTINGS = HighAvailability(JobID(JOB), "", 8.0)
DRIVERS = 3
CHAOS_STEPS = 600
#: How long everything may take to be in order again, in seconds of the simulation.
HEALING = 20 * SETTINGS.lease_timeout


class Crash(BaseException):
    """The process is gone."""


class World:
    """Who moves next, what time it is, and what goes wrong."""

    def __init__(self, seed: int, atomic: bool) -> None:
        self.random = Random(seed)
        self.atomic = atomic
        self.clock = ManualClock(0.0)
        self.chaos = True
        self.volume: dict[str, bytes] = {}
        self.underneath: dict[str, bytes] = {}
        self.away_until = -1.0
        self.drivers: list[Driver] = []
        self.committed: list[int] = []
        self.changes_of_leader = 0

    @property
    def is_away(self) -> bool:
        return self.clock.now() < self.away_until

    @property
    def files(self) -> dict[str, bytes]:
        return self.underneath if self.is_away else self.volume

    def take_away(self) -> None:
        """Unless there is a driver that cannot know that there was something."""
        if all(driver.knows for driver in self.drivers):
            self.underneath = {}
            self.away_until = self.clock.now() + self.random.choice([0.2, 5, 30]) * self.random.random()

    def run(self) -> None:
        try:
            for _ in range(CHAOS_STEPS):
                self.step()
            self.chaos = False
            self.away_until = -1.0
            for driver in self.drivers:
                driver.resume(crash=driver.lease_timeout < SETTINGS.lease_timeout)
            self.heal()
        finally:
            for driver in self.drivers:
                driver.resume(crash=True)

    def step(self) -> None:
        self.drivers = [driver for driver in self.drivers if driver.thread.is_alive()]
        while len(self.drivers) < DRIVERS:
            hasty = self.chaos and self.random.random() < 0.5
            self.drivers.append(Driver(self, 0.5 if hasty else SETTINGS.lease_timeout))
        ready = [driver for driver in self.drivers if driver.wakes <= self.clock.now()]
        if not ready:
            self.clock.advance_to(min(driver.wakes for driver in self.drivers))
            return
        driver = self.random.choice(ready)
        if self.chaos and self.random.random() < 0.005:
            self.take_away()
        if self.chaos and self.random.random() < 0.02:
            driver.wakes = self.clock.now() + self.random.choice([1, 5, 30]) * self.random.random()
            return  # stopped for a while, wherever it is
        driver.resume(crash=self.chaos and self.random.random() < 0.004)
        self.clock.advance(self.random.random() * 0.05)

    def heal(self) -> None:
        calm = self.clock.now() + HEALING
        while self.clock.now() < calm:
            self.step()
        before = len(self.committed)
        while self.clock.now() < calm + 4 * SETTINGS.lease_timeout:
            self.step()
        assert [driver.leads for driver in self.drivers].count(True) == 1, "one leads, the others stand by"
        assert len(self.committed) > before, "and its job continues"

    def commit(self, checkpoint: int, history: list[int]) -> None:
        """A driver was told that its checkpoint is complete, so sinks commit what came before it."""
        assert set(self.committed) <= set(history), (
            f"{self.committed} is committed, {history} knows nothing of it"
        )
        self.committed.append(checkpoint)


class Driver:
    """A process: stands by, leads, takes checkpoints."""

    def __init__(self, world: World, lease_timeout: float) -> None:
        self.world = world
        self.lease_timeout = lease_timeout
        self.wakes = 0.0
        self.leads = False
        self.knows = False  # that the job has had a leader, and where its checkpoints are
        self._moves = threading.Semaphore(0)
        self._rests = threading.Semaphore(0)
        self._crash = False
        self._error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    # For the world.

    def resume(self, crash: bool = False) -> None:
        """Let it go on until it rests again, or is gone."""
        if not self.thread.is_alive():
            return
        self._crash = crash
        self._moves.release()
        self._rests.acquire()
        if self._error is not None:
            raise self._error
        if self._crash:
            self.thread.join()

    def rest(self) -> None:
        self._rests.release()
        self._moves.acquire()
        if self._crash:
            raise Crash

    def sleep(self, seconds: float) -> None:
        self.wakes = self.world.clock.now() + seconds
        self.rest()

    # The process.

    def _run(self) -> None:
        self._moves.acquire()
        try:
            if not self._crash:
                self._drive()
        except Crash:
            pass
        except (JobTakenOverError, StorageError):
            pass  # it ends; a service manager starts another one
        except BaseException as error:  # noqa: BLE001 - for the test
            self._error = error
        self._crash = True
        self._rests.release()

    def _drive(self) -> None:
        storage = Stepwise(self, self.world.files)
        settings = replace(SETTINGS, lease_timeout=self.lease_timeout)
        campaign = Campaign(settings, "job", storage.at("lease"), lambda text: None, lambda: None)
        while self.world.is_away:
            self.sleep(1.0)  # who starts on an empty volume cannot know
        while (held := campaign.step(self.world.clock.now())) is None:
            self.knows = campaign._candidate._highest > 0
            self.sleep(SETTINGS.interval)
        self.leads = True
        self.world.changes_of_leader += 1
        checkpoints = JobCheckpoints(storage.at("checkpoints"), JOB, "job")
        self.knows = held.epoch > 0
        while checkpoints.newest_epoch() < held.epoch or (self.world.is_away and not self.knows):
            assert self.world.is_away or self.world.chaos
            self.sleep(1.0)
        held.epoch = checkpoints.claim()
        self.knows = True
        history = history_of(checkpoints)
        number = master_start(checkpoints, JOB, None).next_checkpoint
        while True:
            publishes = self.world.random.random() < 0.5
            if not publishes or not self.world.chaos:
                self._renew(held.renew)
            if publishes:
                self._publish(checkpoints, number, history)
                number += 1
            self.sleep(SETTINGS.interval * self.world.random.random())

    def _renew(self, renew: Callable[[], str | None]) -> None:
        try:
            reason = renew()
        except StorageError:
            return
        if reason is not None:
            raise JobTakenOverError(reason)

    def _publish(self, checkpoints: JobCheckpoints, number: int, history: list[int]) -> None:
        try:
            checkpoints.publish(manifest(number, [*history, number]))
        except StorageError:
            return  # it may be complete, but nobody was told
        self.world.commit(number, history)
        history.append(number)


def manifest(number: int, history: list[int]) -> Manifest:
    operator = OperatorState("op", "Op", 1, 128, None, (), json.dumps(history).encode())
    return Manifest(JOB, "job", number, 0, CheckpointKind.CHECKPOINT, (operator,))


def history_of(checkpoints: JobCheckpoints) -> list[int]:
    """What the job has done until its newest checkpoint."""
    point = checkpoints.newest_valid(lambda text: None)
    return [] if point is None else list(json.loads(point.manifest.enumerators["op"]))


class Stepwise(MemoryStorage):
    """Every use is a step of its driver; may fail before and after it has happened."""

    def __init__(self, driver: Driver, files: dict[str, bytes], prefix: str = "") -> None:
        super().__init__(files, prefix)
        self._driver = driver

    def at(self, directory: str) -> Stepwise:
        return Stepwise(self._driver, self.files, f"{self._prefix}{directory}/")

    def list(self, directory: str = "") -> list[str]:
        self._step()
        world = self._driver.world
        return [] if world.chaos and world.random.random() < 0.01 else super().list(directory)

    def directory_id(self) -> str:
        self._step()
        return "mount point" if self._driver.world.is_away else "volume"

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self._step()
        return super().read(path, offset, length)

    def exists(self, path: str) -> bool:
        self._step()
        return super().exists(path)

    def publish(self, path: str, content: bytes) -> None:
        if self._driver.world.atomic:
            self._step()
            self._refuse(path)
            self.files[self._full(path)] = content
        else:
            self._step()
            self._refuse(path)
            self._step()
            self.files[self._full(path)] = content
        self._step()

    def delete(self, path: str) -> None:
        self._step()
        super().delete(path)

    def _refuse(self, path: str) -> None:
        if self._full(path) in self.files:
            raise StorageError(f"{path} exists already")

    def _step(self) -> None:
        self._driver.rest()
        world = self._driver.world
        self.files = world.files
        if world.chaos and world.random.random() < 0.01:
            raise StorageError("simulated")


@pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "object store"])
@pytest.mark.parametrize("block", range(5))
def test_what_is_committed_is_one_history_and_one_leads_in_the_end(block: int, atomic: bool) -> None:
    worlds = [World(seed, atomic) for seed in range(block * 5, block * 5 + 5)]
    for seed, world in enumerate(worlds, block * 5):
        try:
            world.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert sum(world.changes_of_leader for world in worlds) > 20, "the job changes hands"
    assert sum(len(world.committed) for world in worlds) > 100


class Claimant(Driver):
    """Claims the job's checkpoints and ends."""

    def __init__(self, world: World, numbers: list[int]) -> None:
        self._numbers = numbers
        super().__init__(world, SETTINGS.lease_timeout)

    def _drive(self) -> None:
        checkpoints = JobCheckpoints(Stepwise(self, self.world.files), JOB, "job")
        try:
            checkpoints.claim()
        finally:  # others may have claimed it since, which is said at once
            self._numbers.append(checkpoints.epoch)


@pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "object store"])
def test_no_two_drivers_get_the_same_number(atomic: bool) -> None:
    for seed in range(100):
        world, numbers = World(seed, atomic), list[int]()
        world.chaos = False
        claimants = [Claimant(world, numbers) for _ in range(3)]
        while alive := [claimant for claimant in claimants if claimant.thread.is_alive()]:
            world.random.choice(alive).resume()
        assert len(set(numbers)) == len(claimants), f"seed {seed}: {numbers}"
