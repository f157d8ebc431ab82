"""Signs of life in a crash simulation: who was heard when, and until when tasks may trust their master.

This is what the threads of the control connections do, in simulated time: see decision 0021. They speak and listen while
their process is not frozen, however busy it is; what follows from it is decided by the real `HeartbeatMonitor` and `Trust`.
"""

from __future__ import annotations

from firesteel.plan.heartbeat import HeartbeatSettings, Trust
from firesteel.plan.messages import TaskId

__all__ = ["HEARTBEAT", "SimulatedHeartbeats"]

#: Short, so that some of the freezes of a simulation are longer and some are not.
HEARTBEAT = HeartbeatSettings(interval=0.1, timeout=0.3)


class SimulatedHeartbeats:
    """The signs of life between the tasks of one attempt and their master."""

    def __init__(self, now: float) -> None:
        self._heard: dict[TaskId, float] = {}
        self._trust: dict[TaskId, Trust] = {}
        self._master_heard = now
        #: When the tasks are to give the next one.
        self.next_sign = now

    def connected(self, task: TaskId, now: float) -> None:
        """A task has begun to speak."""
        self._heard[task] = now
        self._trust[task] = Trust(HEARTBEAT, now)

    def finished(self, task: TaskId) -> None:
        """It has said all that it had to say."""
        del self._heard[task], self._trust[task]

    def speak(self, now: float, master_listens: bool) -> list[tuple[TaskId, int]]:
        """Time has passed for tasks that are not frozen; the questions that they ask now."""
        if master_listens:
            self._master_heard = now  # it speaks, too, while it is not frozen
        if now < self.next_sign:
            return []
        self.next_sign = now + HEARTBEAT.interval
        if master_listens:
            self._heard = dict.fromkeys(self._heard, now)
        return [(task, trust.ask(now)) for task, trust in self._trust.items()]

    def answered(self, task: TaskId, question: int) -> None:
        """The master counted on a task when it heard this question."""
        if task in self._trust:
            self._trust[task].answered(question)

    def silences(self, now: float) -> list[tuple[TaskId, float]]:
        """For how long the master has not heard each task."""
        return [(task, now - heard) for task, heard in self._heard.items()]

    def may_act(self, now: float) -> bool:
        """Whether all tasks may take for granted that their master counts on them."""
        return all(now <= trust.until for trust in self._trust.values())

    def has_lost_its_master(self, now: float) -> bool:
        """Whether the tasks have heard nothing for so long that they end."""
        return now - self._master_heard >= HEARTBEAT.timeout
