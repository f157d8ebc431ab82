"""Whatever drivers do and however they die: slots are never given twice, and nobody who fits waits for ever."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from firesteel.service.records import DriverReport, JobReport, Orders, ProcessMark
from firesteel.service.supervision import (
    MOST_DEATHS,
    Allow,
    Close,
    Grant,
    Refuse,
    Seen,
    Start,
    decide,
    slots_in_use,
)

SLOTS = 10
LONG = 1000.0


@dataclass
class Cluster:
    """Drivers as the service sees them; it obeys what is decided."""

    seen: dict[str, Seen] = field(default_factory=dict)
    over: dict[str, str] = field(default_factory=dict)
    count: int = 0

    def submit(self) -> None:
        self.count += 1
        name = f"{self.count:03}"
        self.seen[name] = Seen(name, self.count, Orders())

    def ask(self, name: str, slots: int, resumable: bool) -> None:
        each = self.seen[name]
        if each.is_alive and not each.jobs:
            self.count += 1
            self._tell(name, JobReport(name, name, slots, self.count, resumable))

    def tell_state(self, name: str, status: str) -> None:
        each = self.seen[name]
        if (
            each.is_alive
            and each.jobs
            and each.orders.granted.get(each.jobs[0].id, 0) >= each.jobs[0].slots
            and not each.jobs[0].is_over
        ):
            self._tell(name, replace(each.jobs[0], status=status))

    def ask_for_others(self, name: str, slots: int) -> None:
        """A job that runs is to be rescaled."""
        each = self.seen[name]
        if each.is_alive and each.jobs and each.jobs[0].status == "RUNNING" and not each.jobs[0].wanted:
            self._tell(name, replace(each.jobs[0], wanted=slots, request=each.jobs[0].request + 1))

    def settle(self, name: str, is_rescaled: bool) -> None:
        """The job was rescaled, if it may, or goes on as it was."""
        each = self.seen[name]
        job = each.jobs[0] if each.jobs else None
        if job is None or not job.wanted or each.orders.answered.get(job.id) != job.request:
            return
        may = is_rescaled and each.orders.granted[job.id] >= job.wanted
        self._tell(name, replace(job, slots=job.wanted if may else job.slots, wanted=0))

    def used(self) -> int:
        """Slots that tasks of running jobs are in."""
        jobs = [each.jobs[0] for each in self.seen.values() if each.jobs]
        return sum(job.slots for job in jobs if job.status == "RUNNING")

    def die(self, name: str) -> None:
        self.seen[name] = replace(self.seen[name], is_alive=False, since_death=LONG)

    def exit(self, name: str) -> None:
        each = self.seen[name]
        if each.is_alive and each.jobs and each.jobs[0].is_over and each.report is not None:
            self.seen[name] = replace(each, is_alive=False, report=replace(each.report, exit_code=0))

    def step(self) -> None:
        for decision in decide(list(self.seen.values()), SLOTS):
            each = self.seen[decision.id]
            match decision:
                case Start(_, resume, after_death):
                    orders = replace(
                        each.orders,
                        starts=each.orders.starts + 1,
                        deaths=each.orders.deaths + after_death,
                        resume=resume,
                    )
                    report = None if each.report is None else replace(each.report, exit_code=None)
                    self.seen[decision.id] = replace(
                        each, orders=orders, is_alive=True, since_death=0.0, report=report
                    )
                case Grant(_, job, slots):
                    self.seen[decision.id] = replace(each, orders=replace(each.orders, granted={job: slots}))
                case Allow(_, job, request, slots):
                    assert slots >= each.jobs[0].slots, "what it runs with is its own"
                    orders = replace(each.orders, granted={job: slots}, answered={job: request})
                    self.seen[decision.id] = replace(each, orders=orders)
                case Refuse(_, job, needed):
                    assert needed > SLOTS
                    self.seen[decision.id] = replace(
                        each, orders=replace(each.orders, refused={job: "too large"})
                    )
                case Close(_, status):
                    self.over[decision.id] = status
                    del self.seen[decision.id]
        assert slots_in_use(self.seen.values()) <= SLOTS
        assert self.used() <= SLOTS

    def _tell(self, name: str, job: JobReport) -> None:
        self.seen[name] = replace(self.seen[name], report=DriverReport(ProcessMark(1, "here"), jobs=(job,)))


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "ask", "run", "finish", "fail", "die", "exit", "rescale", "settle"]),
        st.integers(0, 5),
        st.integers(1, SLOTS + 2),
        st.booleans(),
    ),
    max_size=60,
)


@given(ACTIONS)
def test_slots_are_never_given_twice_and_everything_ends(actions: list[tuple[str, int, int, bool]]) -> None:
    cluster = Cluster()
    for action, which, slots, resumable in actions:
        names = sorted(cluster.seen)
        name = names[which % len(names)] if names else None
        if action == "submit":
            cluster.submit()
        elif name is not None and action == "ask":
            cluster.ask(name, slots, resumable)
        elif name is not None and action in ("run", "finish", "fail"):
            cluster.tell_state(name, {"run": "RUNNING", "finish": "FINISHED", "fail": "FAILED"}[action])
        elif name is not None and action == "rescale":
            cluster.ask_for_others(name, slots)
        elif name is not None and action == "settle":
            cluster.settle(name, resumable)
        elif name is not None and action == "die":
            cluster.die(name)
        elif name is not None and action == "exit":
            cluster.exit(name)
        cluster.step()
    # From now on drivers behave: whoever waits gets slots, and all of it comes to an end.
    for _ in range(4 * (cluster.count + MOST_DEATHS)):
        for name in sorted(cluster.seen):
            cluster.ask(name, 1, True)
            cluster.tell_state(name, "FINISHED")
            cluster.exit(name)
            each = cluster.seen[name]
            if each.orders.refused and each.is_alive and each.report is not None:
                cluster.seen[name] = replace(each, is_alive=False, report=replace(each.report, exit_code=1))
        cluster.step()
    assert cluster.seen == {}
