"""Recognises a failure that comes again and again: a restart leads back to where it comes from, and will not cure it.

Two failures are the same when the same error was raised at the same line of the same operator, for the same record as far
as its ``repr`` tells. Its message may differ: many have times or numbers in them. So may the subtask, because a record that
is redistributed may meet another one.

*Without progress*: other failures may come in between - two bad records in two subtasks take turns - and so may a checkpoint,
which says only that it came before the record. But a restart repeats what came after the newest checkpoint, about one
interval, so an attempt that has come several checkpoints further has passed the record. The first time does not
count for this: how far behind its start the record was, nobody knows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from firesteel.common import options
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError, UserCodeError
from firesteel.jobmaster.failure_history import FailureLabel
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.operator_specs import RecordFunctionSpec

__all__ = ["RepeatedFailures", "Repetition", "RepetitionSettings", "read_repetition_settings"]

#: By how many checkpoints an attempt may come further before it fails again at the record that the last one failed at.
_NEAR = 2
#: How many different failures are told apart.
_MOST = 32

#: Failures that say nothing of the program and its records.
_CHANCE = frozenset(
    {FailureLabel.LOST_MACHINE, FailureLabel.STORAGE, FailureLabel.SLOTS, FailureLabel.TAKEN_OVER}
)
_LOCATION = re.compile(r'File "(.*)", line (\d+)')
#: What differs from process to process, or from time to time, in texts that mean the same.
_VOLATILE = re.compile(r"0x[0-9a-fA-F]+|\d+")
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True)
class RepetitionSettings:
    """How often a failure has to come to be recognised, 0 for never, and whether that ends the job."""

    threshold: int = 0
    ends_job: bool = False


def read_repetition_settings(configuration: Configuration, simulated: bool) -> RepetitionSettings:
    """What the options say; ``simulated``: in a time in which waiting costs nothing, restarts would never end."""
    threshold = configuration.get(options.REPEATED_FAILURE_THRESHOLD)
    if threshold < 0:
        raise InvalidOptionError(
            f"option '{options.REPEATED_FAILURE_THRESHOLD.key}': expected at least 0, got {threshold}"
        )
    action = configuration.get(options.REPEATED_FAILURE_ACTION)
    return RepetitionSettings(threshold, simulated if action is None else action == "fail")


@dataclass(frozen=True, slots=True)
class Repetition:
    """A failure that is not cured by restarting, in words, and whether the job ends with it."""

    text: str
    ends_job: bool


@dataclass(slots=True)
class _Seen:
    count: int
    restored: int


class RepeatedFailures:
    """The failures of one job, counted."""

    def __init__(self, plan: JobPlan, settings: RepetitionSettings) -> None:
        self.plan = plan
        self._settings = settings
        self._seen: dict[tuple[str, ...], _Seen] = {}  # the last one last

    def failed(
        self, error: BaseException, label: FailureLabel, restored: int | None, restarts: bool
    ) -> Repetition | None:
        """An attempt that began with checkpoint ``restored`` has failed; ``restarts``: there may be another one.

        What it returns is to be told: when the failure is recognised, and again whenever its count has doubled.
        """
        threshold = self._settings.threshold
        if not threshold or label in _CHANCE:
            return None
        count = self._count(identity_of(error), restored or 0)
        if count < threshold:
            return None
        ends = self._settings.ends_job or not restarts
        if not ends and (count % threshold or (count // threshold).bit_count() != 1):
            return None
        return Repetition(self._text(error, count, restarts), ends)

    def _count(self, identity: tuple[str, ...], restored: int) -> int:
        seen = self._seen.pop(identity, None)
        if seen is not None and seen.count > 1 and restored - seen.restored > _NEAR:
            seen = None  # it was passed: this is another record that looks like it, or fails now and then
        count = 1 if seen is None else seen.count + 1
        self._seen[identity] = _Seen(count, restored)
        if len(self._seen) > _MOST:
            del self._seen[next(iter(self._seen))]
        return count

    def _text(self, error: BaseException, count: int, restarts: bool) -> str:
        job = f"job '{self.plan.name}' {count} time{'' if count == 1 else 's'}"
        if isinstance(error, UserCodeError) and error.record:
            what = (
                f"the same record has failed {job}, in '{error.operator}' with {_kind(error)}: {error.record}; "
                "a restart reads it again"
            )
        elif isinstance(error, UserCodeError):
            what = f"the same failure of '{error.operator}' has ended {job}: {_kind(error)}; a restart comes back to it"
        else:
            what = f"the same failure has ended {job}: {type(error).__name__}; a restart comes back to it"
        return f"{what}. {self._remedy(error)}{self._outlook(restarts)}"

    def _remedy(self, error: BaseException) -> str:
        if isinstance(error, UserCodeError) and error.record and self._may_tolerate(error.operator):
            return (
                f"on_error('drop') or on_error(dead_letter=...) on '{error.operator}' takes such records out; or mend the "
                "function and start the job from its newest checkpoint"
            )
        return "Mend the program and start the job from its newest checkpoint"

    def _may_tolerate(self, operator: str) -> bool:
        return any(
            each.name == operator
            and (isinstance(each.spec, RecordFunctionSpec) or getattr(each.spec, "decodes", False))
            for vertex in self.plan.vertices
            for each in vertex.operators
        )

    def _outlook(self, restarts: bool) -> str:
        if not restarts:
            return ""
        key, values = options.REPEATED_FAILURE_ACTION.key, ("warn", "fail")
        if self._settings.ends_job:
            return (
                f". The job ends here; with '{key}' = {values[0]} it would go on restarting, and "
                f"'{options.REPEATED_FAILURE_THRESHOLD.key}' says after how many failures"
            )
        return f". The job goes on restarting; with '{key}' = {values[1]} it would end here"


def identity_of(error: BaseException) -> tuple[str, ...]:
    """What equal failures have in common."""
    if not isinstance(error, UserCodeError):
        return type(error).__qualname__, _VOLATILE.sub("0", str(error).split("\n", 1)[0])
    places = _LOCATION.findall(error.traceback_text)
    where = ":".join(places[-1]) if places else ""
    return error.operator, error.function, _kind(error), where, _ADDRESS.sub("at 0x", error.record)


def _kind(error: UserCodeError) -> str:
    """The class of what the user's function raised; its cause may be of a class that the driver cannot build."""
    if error.__cause__ is not None:
        return type(error.__cause__).__name__
    return error.reason.split("\n", 1)[0].split(":", 1)[0]
