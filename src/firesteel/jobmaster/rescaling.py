"""What people ask of a job's parallelism: the plan that they want is made and has its slots before the core hears of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future

from firesteel.common.errors import FiresteelError, NotEnoughSlotsError, RescaleError
from firesteel.common.job_status import JobStatus
from firesteel.compiler.program_plans import Bounds, ProgramPlans
from firesteel.jobmaster.events import BoundsChanged, Event, RescaleRequested, SlotsCounted
from firesteel.jobmaster.instructions import CountSlots
from firesteel.jobmaster.pending_requests import PendingRequests
from firesteel.plan.executor import ElasticExecutor, Executor, SlotAllowance
from firesteel.plan.job_plan import JobPlan

__all__ = ["Rescaling"]

_LOG = logging.getLogger(__name__)


class Rescaling:
    """The parallelism of one job; may be used from any thread.

    ``plans`` make the plans that the job can continue as; without them it keeps its own. ``is_elastic``: it makes do with fewer
    slots than it asks for. ``allowance``: who has a say in how many those are, beside the engine; ``is_changing``: the job is about to
    use slots that it was allowed. Requests have ``numbers`` that no other requests of the job have; ``post`` is the way to the core.
    """

    def __init__(
        self,
        job: tuple[str, JobPlan],
        plans: ProgramPlans | None,
        executor: Executor,
        post: Callable[[Event], None],
        numbers: Iterator[int],
        is_elastic: bool,
        allowance: SlotAllowance | None = None,
        is_changing: Callable[[], bool] = lambda: False,
    ) -> None:
        self._job_id, self.plan = job
        self._name = self.plan.name
        self._plans = plans
        self._executor = executor
        self._post = post
        self._is_elastic = is_elastic
        self._allowance = allowance
        self._is_changing = is_changing
        self._larger: dict[int, int] = {}  # slots of the next larger plan, by those that there are
        self._larger_for: Mapping[str, Bounds] | None = None
        self._requests: PendingRequests[JobPlan] = PendingRequests(
            "rescale", self._name, numbers, RescaleError
        )
        self._wanted: dict[int, Mapping[str, Bounds] | None] = {}  # by request that has no answer yet
        #: How many subtasks each operator asks for, by its id.
        self.bounds: Mapping[str, Bounds] = {} if plans is None else plans.bounds

    def to_default(self, parallelism: int) -> Future[JobPlan]:
        """Go on with another default parallelism, which operators with one of their own do not follow."""
        return self._ask(lambda plans: plans.with_default(parallelism))

    def to_bounds(self, bounds: Mapping[str, Bounds]) -> Future[JobPlan]:
        """Go on with another parallelism of some operators; the others ask for what they did."""
        return self._ask(lambda plans: {**self.bounds, **bounds})

    def _ask(self, wish: Callable[[ProgramPlans], Mapping[str, Bounds]]) -> Future[JobPlan]:
        number, future = self._requests.open()
        self._wanted[number] = None  # what it is allowed is not given back while it is thought about
        try:
            if self._plans is None:
                raise RescaleError("its program is not known any more")
            bounds = wish(self._plans)
            plan = self._plan_for(self._plans, bounds)
        except FiresteelError as error:
            problem = RescaleError(f"job '{self._name}' keeps its parallelism: {error}")
            problem.__cause__ = error
            del self._wanted[number]
            self._give_back()
            self._requests.answer(number, None, problem)
            return future
        except BaseException:
            del self._wanted[number]  # an engine that does not answer must not keep slots from other jobs
            raise
        if plan.parallelism == self.plan.parallelism:
            self.bounds = bounds
            del self._wanted[number]
            self._give_back()
            self._post(BoundsChanged(bounds))
            self._requests.answer(number, self.plan, None)
            return future
        self._wanted[number] = bounds
        self._post(RescaleRequested(number, plan, bounds))
        return future

    def _plan_for(self, plans: ProgramPlans, bounds: Mapping[str, Bounds]) -> JobPlan:
        """The plan within the bounds that there are slots for; counted by whoever asks, because tasks end for it."""
        plan = plans.plan(bounds)
        needed = plan.slots
        available = self._available_slots(needed)
        if available >= needed:
            return plan
        fitting = plans.largest(bounds, available) if self._is_elastic else None
        if fitting is not None:
            return fitting
        sentence = ""
        if self._allowance is not None:
            sentence = (
                f"not enough slots: the job needs {needed} and may have {available}; other jobs of the service have the rest, or "
                "wait for it"
            )
        raise NotEnoughSlotsError(sentence, needed=needed, available=available)

    def answer(self, request: int, error: BaseException | None) -> None:
        """The job runs as another plan, or goes on as it was."""
        wanted = self._wanted.pop(request, None)
        if error is None and wanted is not None:
            self.bounds = wanted
        if error is None:
            shown = ", ".join(f"'{vertex.name}' {vertex.parallelism}" for vertex in self.plan.vertices)
            _LOG.warning("job '%s' runs with another parallelism now: %s", self._name, shown)
        else:
            _LOG.warning("%s", error)
        self._give_back()
        self._requests.answer(request, self.plan if error is None else None, error)

    def runs(self) -> None:
        """All tasks of an attempt run, which may be fewer than there were slots for."""
        self._give_back()

    def close(self, status: JobStatus) -> None:
        """The job is over: requests without an answer get an error that says how it ended."""
        self._requests.close(status)

    def count_slots(self, instruction: CountSlots) -> None:
        """Ask the engine, which may have to be started for that, in a thread that nobody waits for.

        Whoever has a say beside it is not asked again every time: he knows what the job hopes for.
        """

        def count() -> None:
            try:
                counted = SlotsCounted(instruction.attempt, self._slots_so_far(instruction.wanted))
            except Exception as error:  # noqa: BLE001 - why there is no engine
                counted = SlotsCounted(instruction.attempt, 0, error)
            self._post(counted)

        threading.Thread(target=count, name=f"firesteel-slots-{self._job_id[:8]}", daemon=True).start()

    def _available_slots(self, wanted: int) -> int:
        room = self._room(wanted)
        return room if self._allowance is None else min(room, self._allowance.allow(self._job_id, room))

    def _slots_so_far(self, wanted: int) -> int:
        """Those that the job has; where there is room for more, it hopes for as many as would be of use."""
        room = self._room(wanted)
        if self._allowance is None:
            return room
        held = self._allowance.held(self._job_id)
        if held < room:
            least = self._slots_of_larger(held)
            if held < least <= room:
                self._allowance.hope_for(self._job_id, room, least)
        return min(room, held)

    def _room(self, wanted: int) -> int:
        """How many of the slots the engine has."""
        if isinstance(self._executor, ElasticExecutor):
            return self._executor.count_slots(self._job_id, wanted)
        return wanted

    def _slots_of_larger(self, slots: int) -> int:
        """What the next plan needs that is too large for ``slots``: with fewer the job would leave some unused."""
        assert self._plans is not None
        bounds = self.bounds
        if self._larger_for is not bounds:
            self._larger, self._larger_for = {}, bounds
        if slots not in self._larger:
            self._larger[slots] = self._plans.slots_of_larger(bounds, slots)
        return self._larger[slots]

    def _give_back(self) -> None:
        """Keep the slots that the job runs with, unless it is about to need more of them."""
        if self._allowance is None or self._wanted or self._is_changing():
            return
        slots = self.plan.slots
        if self._is_elastic:
            # It may wait with a plan for which it has too few, and would be taken for one that needs all of them.
            slots = min(slots, self._allowance.held(self._job_id))
        self._allowance.keep(self._job_id, slots)
