"""A database in memory that is as nasty as real ones: lost answers to COMMIT, lost connections, locks, conflicts.

It understands the statements of the exactly-once sink. Everybody who talks to it is an *actor*; at each statement another
one may go on, as a seeded generator says, so that every history can be had again. Transactions whose client is gone live
on for a while, and then count or do not count.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from firesteel.common._override import override
from firesteel.connectors.jdbc.database import (
    Conflict,
    Connection,
    ConnectionLost,
    Database,
    Parameters,
    StatementFailed,
)
from firesteel.connectors.jdbc.statement import Statement

__all__ = ["Actors", "SimulatedDatabase", "World"]


class Actors:
    """Threads of which exactly one runs; `step` is where another one may be chosen."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator
        self._waiting: list[threading.Semaphore] = []
        self.errors: list[BaseException] = []

    def spawn(self, act: Callable[[], None]) -> None:
        """Begin another actor, which runs when it is chosen."""
        turn = threading.Semaphore(0)
        self._waiting.append(turn)

        def run() -> None:
            turn.acquire()
            self._waiting.remove(turn)
            try:
                act()
            except Exception as error:  # noqa: BLE001 - whoever spawned it asks
                self.errors.append(error)
            finally:
                self._generator.choice(self._waiting).release()  # whoever it is removes itself

        threading.Thread(target=run, daemon=True).start()

    def step(self, insist: bool = False) -> None:
        """Perhaps another actor goes on; ``insist``: certainly, if there is one."""
        others = list(self._waiting)
        if not others or (not insist and self._generator.random() < 0.5):
            return
        mine = threading.Semaphore(0)
        self._waiting.append(mine)
        self._generator.choice(others).release()
        mine.acquire()
        self._waiting.remove(mine)

    def finish(self) -> None:
        """Let all others run to their ends."""
        while self._waiting:
            self.step(insist=True)


@dataclass
class _Transaction:
    notes: dict[str, str] = field(default_factory=dict)
    rows: list[Parameters] = field(default_factory=list)
    locks: set[str] = field(default_factory=set)


class World:
    """What the server has. ``trouble`` is how likely each statement goes wrong; 0 ends all trouble."""

    def __init__(self, seed: int, trouble: float = 0.05) -> None:
        self.generator = random.Random(seed)
        self.actors = Actors(self.generator)
        self.trouble = trouble
        self.rows: list[Parameters] = []
        self.notes: dict[str, str] = {}
        self.locks: dict[str, _Transaction] = {}
        self.in_doubt: list[_Transaction] = []
        self.happened: list[str] = []

    def goes_wrong(self, what: str) -> bool:
        """Whether this happens now."""
        happens = self.generator.random() < self.trouble
        if happens:
            self.happened.append(what)
        return happens

    def step(self) -> None:
        """Time goes on: others act, and transactions without a client end in one way or the other."""
        self.actors.step()
        if self.in_doubt and self.generator.random() < 0.3:
            transaction = self.in_doubt.pop(self.generator.randrange(len(self.in_doubt)))
            self.end(transaction, counts=self.generator.random() < 0.5)

    def end(self, transaction: _Transaction, counts: bool) -> None:
        """The end of a transaction."""
        if counts:
            self.rows += transaction.rows
            self.notes.update(transaction.notes)
        for key in transaction.locks:
            del self.locks[key]
        transaction.locks.clear()


_WORLDS: dict[int, World] = {}


@dataclass(frozen=True)
class SimulatedDatabase(Database):
    """Pickled as a number, so that all copies mean the same world."""

    number: int

    @staticmethod
    def of(world: World) -> SimulatedDatabase:
        """The database of a world."""
        _WORLDS[id(world)] = world
        return SimulatedDatabase(id(world))

    @property
    def world(self) -> World:
        return _WORLDS[self.number]

    def forget(self) -> None:
        """The world is over."""
        del _WORLDS[self.number]

    @property
    @override
    def name(self) -> str:
        return "simulated database"

    @override
    def connect(self) -> Connection:
        if self.world.goes_wrong("no connection"):
            raise ConnectionLost("nobody answers")
        return _SimulatedConnection(self.world)

    @override
    def pause(self, seconds: float) -> None:
        self.world.step()


class _SimulatedConnection(Connection):
    def __init__(self, world: World) -> None:
        self._world = world
        self._transaction = _Transaction()
        self._lost = False

    def _begin(self) -> _Transaction:
        self._world.step()
        if self._lost:
            raise ConnectionLost("closed")
        if self._world.goes_wrong("connection lost"):
            self._lose()
            raise ConnectionLost("reset by peer")
        if self._world.goes_wrong("conflict"):
            self.rollback()
            raise Conflict("deadlock detected")
        return self._transaction

    def _lose(self, may_count: bool = False) -> None:
        """The client is gone; the server notices at once, or lives on with the transaction for a while."""
        self._lost = True
        transaction, self._transaction = self._transaction, _Transaction()
        if may_count:
            self._world.in_doubt.append(transaction)
        else:
            self._world.end(transaction, counts=False)

    @override
    def execute(self, statement: Statement, parameters: Parameters = ()) -> list[Parameters]:
        transaction = self._begin()
        text = statement.pieces[0]
        if text.startswith('INSERT INTO "firesteel_commits"'):
            self._acquire(transaction, parameters[0])
            if parameters[0] not in self._world.notes:
                transaction.notes.setdefault(parameters[0], "")
        elif text.startswith('UPDATE "firesteel_commits"'):
            transaction.notes[parameters[1]] = parameters[0]
        elif text.startswith("INSERT INTO output"):
            transaction.rows.append(parameters)
        else:
            raise StatementFailed(f"syntax error: {text}")
        return []

    def _acquire(self, transaction: _Transaction, key: str) -> None:
        """Wait for a lock; the wait can be too long."""
        while self._world.locks.get(key, transaction) is not transaction:
            self._world.actors.step(insist=True)
            self._world.step()
            if self._world.goes_wrong("lock not available"):
                self.rollback()
                raise Conflict("lock timeout")
        self._world.locks[key] = transaction
        transaction.locks.add(key)

    @override
    def lock(self, statement: Statement, parameters: Parameters) -> list[Parameters]:
        transaction = self._begin()
        [key] = parameters
        self._acquire(transaction, key)
        return [(transaction.notes.get(key) or self._world.notes.get(key, ""),)]

    @override
    def execute_many(self, statement: Statement, rows: Sequence[Parameters]) -> None:
        for row in rows:
            self.execute(statement, row)

    @override
    def commit(self) -> None:
        self._world.step()
        if self._lost:
            raise ConnectionLost("closed")
        if self._world.goes_wrong("answer to COMMIT lost"):
            self._lose(may_count=True)
            raise ConnectionLost("reset by peer during COMMIT")
        self._world.end(self._transaction, counts=True)
        self._transaction = _Transaction()

    @override
    def rollback(self) -> None:
        self._world.end(self._transaction, counts=False)
        self._transaction = _Transaction()

    @override
    def close(self) -> None:
        if not self._lost:
            self._lose()

    @override
    def create_table(self, sql: str, name: str) -> None:
        self._begin()

    @override
    def check(self, statement: Statement) -> None:
        self._begin()

    @override
    def columns(self) -> tuple[str, ...]:
        return ()

    @override
    def stream(self, statement: Statement, parameters: Parameters, size: int) -> Iterator[list[Any]]:
        raise NotImplementedError("the simulated database is written to")
