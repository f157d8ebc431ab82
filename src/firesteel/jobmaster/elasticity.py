"""How a job makes do with the slots that there are, as a pure machine: numbers of slots in, plans out.

With ``jobmanager.scheduler: adaptive``. Before an attempt starts, slots are counted until there are all that the job asks for;
or, for ``stabilization`` seconds, at least enough for it to run; or until it has waited for long enough. While it runs they
are counted, too: when there is room for more subtasks, or somebody has asked for fewer, the job is to continue as another plan.
When slots go, their tasks go with them: the attempt fails, and the next one makes do with what is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from firesteel.common import options
from firesteel.common.configuration import Configuration
from firesteel.common.errors import NotEnoughSlotsError
from firesteel.compiler.program_plans import Bounds, ProgramPlans
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.operator_specs import RuntimeMode

__all__ = ["ElasticSettings", "Elasticity", "Look", "read_elastic_settings"]

#: How often slots are counted while a job waits for them, and while it runs.
WAITING_SECONDS = 0.25
RUNNING_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ElasticSettings:
    """Times in seconds; ``wait`` None: for ever."""

    wait: float | None = 300.0
    stabilization: float = 10.0
    cooldown: float = 30.0
    executing_stabilization: float = 60.0


def read_elastic_settings(configuration: Configuration, mode: RuntimeMode) -> ElasticSettings | None:
    """How a job makes do with fewer slots than it asks for; None when it does not, as in BATCH."""
    if configuration.get(options.SCHEDULER) != "Adaptive" or mode is RuntimeMode.BATCH:
        return None
    wait = configuration.get(options.ADAPTIVE_WAIT).to_millis() / 1000
    return ElasticSettings(
        None if wait < 0 else wait,
        configuration.get(options.ADAPTIVE_STABILIZATION).to_millis() / 1000,
        configuration.get(options.ADAPTIVE_COOLDOWN).to_millis() / 1000,
        configuration.get(options.ADAPTIVE_EXECUTING_STABILIZATION).to_millis() / 1000,
    )


@dataclass(frozen=True, slots=True)
class Look:
    """Count the slots again after ``seconds``."""

    seconds: float


class Elasticity:
    """One job. Feed it numbers of slots: `before_start` while it waits, `while_running` when it runs."""

    def __init__(self, plans: ProgramPlans, settings: ElasticSettings) -> None:
        self._plans = plans
        self._settings = settings
        self._bounds = plans.bounds
        self._desired = plans.plan(plans.bounds)
        self._fitting: dict[int, JobPlan | None] = {}  # by number of slots
        self._waits_since: float | None = None
        self._enough_since: float | None = None
        self._runs_since = 0.0
        self._seen: int | None = None  # while it runs
        self._changed_at = 0.0

    @property
    def desired(self) -> JobPlan:
        """The plan with all that the job asks for."""
        return self._desired

    def ask_for(self, bounds: Mapping[str, Bounds]) -> None:
        """Somebody wants other numbers of subtasks."""
        self._bounds = bounds
        self._desired = self._plans.plan(bounds)
        self._fitting = {}
        self._seen = None

    def _largest(self, slots: int) -> JobPlan | None:
        if slots not in self._fitting:
            self._fitting[slots] = self._plans.largest(self._bounds, slots)
        return self._fitting[slots]

    # Before an attempt.

    def before_start(self, available: int, now: float) -> JobPlan | Look | NotEnoughSlotsError:
        """There are that many slots: the plan to start with, or when to look again, or why the job cannot start."""
        if self._waits_since is None:
            self._waits_since = now
        if available >= self._desired.slots:
            return self._started(self._desired)
        fitting = self._largest(available)
        if fitting is None:
            self._enough_since = None
        elif self._enough_since is None:
            self._enough_since = now
        wait = self._settings.wait
        is_over = wait is not None and now - self._waits_since >= wait
        if fitting is not None and (is_over or self._is_stable(now)):
            return self._started(fitting)
        if is_over:
            return self._too_few(available)
        return Look(WAITING_SECONDS)

    def _is_stable(self, now: float) -> bool:
        return self._enough_since is not None and now - self._enough_since >= self._settings.stabilization

    def _started(self, plan: JobPlan) -> JobPlan:
        self._waits_since = self._enough_since = None
        return plan

    def _too_few(self, available: int) -> NotEnoughSlotsError:
        self._waits_since = None
        needed = self._plans.smallest(self._bounds).slots
        return NotEnoughSlotsError(
            f"the job needs {needed} slots at least, one for a subtask of every vertex, and Spark has {available} after "
            f"{self._settings.wait:g} s ('{options.ADAPTIVE_WAIT.key}'); give the Spark cluster more executor cores",
            needed=needed,
            available=available,
        )

    # While it runs.

    def runs(self, now: float) -> None:
        """All tasks of an attempt run."""
        self._runs_since = now
        self._seen = None

    def while_running(self, available: int, now: float, plan: JobPlan) -> JobPlan | None:
        """There are that many slots: the plan that the job is to continue as; None when it stays as it is."""
        if available != self._seen:
            self._seen, self._changed_at = available, now
        if available < plan.slots or now - self._runs_since < self._settings.cooldown:
            return None  # tasks that are lost are noticed by themselves
        has_all = available >= self._desired.slots
        if not has_all and now - self._changed_at < self._settings.executing_stabilization:
            return None
        better = self._desired if has_all else self._largest(available)
        if better is None or better.parallelism == plan.parallelism:
            return None
        self._runs_since = now  # one that fails is tried again after the same time
        return better
