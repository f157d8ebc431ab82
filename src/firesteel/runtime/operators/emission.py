"""What user code emits: made a value at once, gathered, and handed on in pieces.

Three promises of the engine are kept here, for every operator that calls a user's function:

- A record is what it was when it was emitted. What can change is copied before any more user code runs; see
  `firesteel.common._values`. Operators leave that out where nothing can go wrong: see `protects`.
- One call may emit any number of records. They leave whenever there are enough for a batch, also in the middle of the
  call, and whoever drives the task may send them before the call continues.
- A result reaches a side output in two ways: yielded as ``tag, value``, or handed to ``ctx.output``. Within an output
  records keep the order in which the function emitted them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from firesteel.common._values import ATOMIC, private, private_all
from firesteel.contracts.output_tag import OutputTag
from firesteel.runtime.changes_nothing import changes_nothing
from firesteel.runtime.harmless import meets_unusual
from firesteel.runtime.operator import OperatorContext, Timestamps
from firesteel.runtime.operators.loops import ASIDE, EMIT_AT, create_loop

__all__ = ["EMIT_AT", "Emission", "Watch", "protects"]


def protects(context: OperatorContext, *calls: Callable[..., Any]) -> bool:
    """Whether what these functions emit has to be made a value.

    It need not when they provably never change anything in place, and nobody behind them does, either. That is proven for
    records whose classes leave operators alone: where it says no, `Watch` asks about them.
    """
    if not context.protects:
        return False
    return not (context.output.is_settled() and all(changes_nothing(call) for call in calls))


class Watch:
    """Looks for classes that define operators or methods which the proofs believe to know.

    Once one has been met, nothing is proven any more: its objects may be in the state, or in other records.
    """

    def __init__(self, context: OperatorContext) -> None:
        self._looks = context.protects

    def finds(self) -> bool:
        """Whether one has been met, now or before."""
        return self._looks and meets_unusual()


class Emission:
    """The results of one operator between its user code and its output.

    ``now_at`` is the event time of the record or timer at hand. With `begin(timed=True)` every result gets it.
    """

    def __init__(self, context: OperatorContext) -> None:
        self._output = context.output
        self.pace = context.pace
        self._protects = context.protects
        self.now_at: int | None = None
        self._timed = False
        self.results: list[Any] = []
        self.stamps: list[int | None] = []
        self._sides: dict[str, tuple[list[Any], list[int | None]]] = {}
        self._in_sides = 0
        self._failure: BaseException | None = None

    def begin(self, timed: bool) -> None:
        """A batch begins, or timers are about to fire; ``timed``: what comes of it has event time."""
        self._timed = timed

    # Gathering ----------------------------------------------------------------------------------------

    def call_each(
        self,
        cursor: Iterator[Any],
        timestamps: Timestamps,
        call: Callable[..., Any],
        *,
        guarded: bool,
        tagged: bool = False,
        few: bool = False,
        context: Any = None,
        keys: Iterator[Any] | None = None,
        state: Any = None,
    ) -> None:
        """Call a function with each record and hand on all that it gives; `create_loop` has the details."""
        timed = timestamps is not None
        self._timed = timed
        self.now_at = None
        loop = create_loop(
            keyed=keys is not None,
            timed=timed,
            contextual=context is not None,
            tagged=tagged,
            guarded=guarded and self._protects,
            few=few,
        )
        loop(cursor, keys, timestamps, call, context, state, self)
        self.flush()

    def add_all(self, results_of_calls: Iterable[Iterable[Any] | None], tagged: bool = True) -> None:
        """Add all results of calls that each give some, or None; the calls are made as one goes along.

        ``tagged``: a result that is a tag and a value goes to the side output of that tag.
        """
        atomic, protected, pace = ATOMIC, self._protects, self.pace
        for results in results_of_calls:
            if results is None:
                continue
            for result in results:
                if type(result) not in atomic and (protected or tagged):
                    result = self.divert_tagged(result) if tagged else private(result)
                    if result is ASIDE:
                        continue
                self.results.append(result)
                if self._timed:
                    self.stamps.append(self.now_at)
                if len(self.results) >= EMIT_AT or pace.late:
                    self.hand_on()

    def values_of(self, results: Iterable[Any]) -> list[Any]:
        """The results of calls that each give one, as values, for the operator to emit itself."""
        return private_all(results) if self._protects else list(results)

    def divert_tagged(self, result: Any) -> Any:
        """The result as a value; `ASIDE` when it was a tag and a value for the side output of that tag."""
        if type(result) is tuple and result and type(result[0]) is OutputTag:
            tag, value = result
            self.add_aside(tag.tag_id, value)
            return ASIDE
        return private(result) if self._protects else result

    def add_aside(self, tag_id: str, value: Any) -> None:
        """Add a record for a side output, in the middle of a call."""
        values, stamps = self._sides.get(tag_id) or self._sides.setdefault(tag_id, ([], []))
        values.append(private(value) if self._protects else value)
        stamps.append(self.now_at)
        self._in_sides += 1
        if self._in_sides >= EMIT_AT:
            self._flush_sides_within_call()

    # Handing on ---------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Hand on everything that was added."""
        if self._failure is not None:
            # An operator further down raised this while a call was handing over records. The call may have caught
            # it together with its own errors.
            raise self._failure
        if self._in_sides:
            self._flush_sides()
        if self.results:
            results, self.results = self.results, []
            stamps, self.stamps = self.stamps, []
            self._output.emit(results, stamps if self._timed else None)

    def hand_on(self) -> None:
        """There are enough results, or making them takes long: hand them on before more are made."""
        self.flush()
        if self.pace.late:
            self.pace.breathe()

    def _flush_sides(self) -> None:
        sides, self._sides, self._in_sides = self._sides, {}, 0
        for tag_id, (values, stamps) in sides.items():
            self._output.emit_side(tag_id, values, stamps if self._timed else None)

    def _flush_sides_within_call(self) -> None:
        try:
            self._flush_sides()
        except BaseException as error:
            self._failure = error
            raise
