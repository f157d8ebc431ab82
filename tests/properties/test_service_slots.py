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

    def ask(self, name: str, slots: int, resumable: bool, least: int = 0) -> None:
        """``least``: the job is adaptive, and makes do with so many."""
        each = self.seen[name]
        if each.is_alive and not each.jobs:
            self.count += 1
            self._tell(name, JobReport(name, name, slots, self.count, resumable, least=least))

    def tell_state(self, name: str, status: str) -> None:
        """What has its slots goes on; an adaptive job that does so without all of them says with how many."""
        each = self.seen[name]
        job = each.jobs[0] if each.jobs else None
        if not each.is_alive or job is None or job.is_over or each.orders.held(job) < job.needed:
            return
        if job.wanted:
            self._tell(name, replace(job, status=status))
        else:
            self._tell(name, replace(job, status=status, slots=each.orders.held(job), least=0))

    def ask_for_others(self, name: str, slots: int) -> None:
        """A job that runs is to be rescaled."""
        each = self.seen[name]
        if each.is_alive and each.jobs and each.jobs[0].status == "RUNNING" and not each.jobs[0].wanted:
            self._tell(name, replace(each.jobs[0], wanted=slots, request=each.jobs[0].request + 1))

    def hope_for(self, name: str, slots: int) -> None:
        """A job that runs would go on with so many, and one more than it has would be of use."""
        each = self.seen[name]
        job = each.jobs[0] if each.jobs else None
        if job is not None and each.is_alive and job.status == "RUNNING" and not job.wanted:
            least = each.orders.held(job) + 1
            wanted = max(least, slots)
            self._tell(name, replace(job, wanted=wanted, least=least, request=job.request + 1))

    def grow(self, name: str) -> None:
        """A job that got some of what it has hoped for uses them."""
        each = self.seen[name]
        job = each.jobs[0] if each.jobs else None
        if (
            job is not None
            and job.least
            and job.wanted
            and each.orders.answered.get(job.id, 0) >= job.request
        ):
            assert each.orders.held(job) >= job.least
            self._tell(name, replace(job, slots=each.orders.held(job), wanted=0, least=0))

    def settle(self, name: str, is_rescaled: bool) -> None:
        """The job was rescaled, if it may, or goes on as it was."""
        each = self.seen[name]
        job = each.jobs[0] if each.jobs else None
        if job is None or not job.wanted or each.orders.answered.get(job.id) != job.request:
            return
        may = is_rescaled and each.orders.granted[job.id] >= job.wanted
        self._tell(name, replace(job, slots=job.wanted if may else job.slots, wanted=0, least=0))

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
        st.sampled_from(
            [
                "submit",
                "ask",
                "adapt",
                "run",
                "finish",
                "fail",
                "die",
                "exit",
                "rescale",
                "hope",
                "grow",
                "settle",
            ]
        ),
        st.integers(0, 5),
        st.integers(1, SLOTS + 2),
        st.booleans(),
    ),
    max_size=60,
)


def happened(actions: list[tuple[str, int, int, bool]]) -> Cluster:
    cluster = Cluster()
    for action, which, slots, flag in actions:
        names = sorted(cluster.seen)
        if action == "submit":
            cluster.submit()
        elif names:
            do(cluster, action, names[which % len(names)], slots, flag)
        cluster.step()
    return cluster


def do(cluster: Cluster, action: str, name: str, slots: int, flag: bool) -> None:
    match action:
        case "ask":
            cluster.ask(name, slots, flag)
        case "adapt":
            cluster.ask(name, slots, flag, least=(slots + 1) // 2)
        case "run":
            cluster.tell_state(name, "RUNNING")
        case "finish":
            cluster.tell_state(name, "FINISHED")
        case "fail":
            cluster.tell_state(name, "FAILED")
        case "rescale":
            cluster.ask_for_others(name, slots)
        case "hope":
            cluster.hope_for(name, slots)
        case "grow":
            cluster.grow(name)
        case "settle":
            cluster.settle(name, flag)
        case "die":
            cluster.die(name)
        case "exit":
            cluster.exit(name)


@given(ACTIONS)
def test_slots_are_never_given_twice_and_everything_ends(actions: list[tuple[str, int, int, bool]]) -> None:
    cluster = happened(actions)
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


@given(ACTIONS)
def test_adaptive_jobs_have_all_slots_that_nobody_waits_for(
    actions: list[tuple[str, int, int, bool]],
) -> None:
    cluster = happened(actions)
    for name in sorted(cluster.seen):
        cluster.ask(name, 2, True)
    # From now on everything that can run runs, and every job that does hopes for all slots of the service.
    for _ in range(4 * (cluster.count + SLOTS + MOST_DEATHS)):
        for name in sorted(cluster.seen):
            cluster.grow(name)
            cluster.settle(name, False)
            cluster.tell_state(name, "RUNNING")
            cluster.hope_for(name, SLOTS)
        cluster.step()
    found = [(each.jobs[0], each.orders) for each in cluster.seen.values() if each.is_alive and each.jobs]
    waiting = [job for job, orders in found if not orders.refused and orders.held(job) < job.needed]
    running = [job for job, _ in found if job.status == "RUNNING"]
    free = SLOTS - slots_in_use(cluster.seen.values())
    if waiting:
        assert min(waiting, key=lambda job: job.asked).needed > free, "the first that waits has to"
    elif running:
        assert free == 0
