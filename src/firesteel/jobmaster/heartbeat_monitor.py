"""Who has given no sign of life for too long: a pure machine; no threads, sockets or clock.

While an attempt runs::

    TimerElapsed(HEARTBEAT) ─> MeasureSilence, SetTimer(HEARTBEAT)
    SilenceMeasured ─────────> TaskSilent, EngineSilent for those that are lost

Who measures leaves out tasks to which nobody listens, because the thread that reads what they say is busy with what
they said before: their silence is not theirs. For the same reason a master that finds itself much too late, because its
own process was stopped or starved, judges nobody before it has listened again for as long as anybody may be silent.
"""

from __future__ import annotations

from firesteel.jobmaster.events import EngineSilent, SilenceMeasured, TaskSilent, Timer, TimerElapsed
from firesteel.jobmaster.instructions import MeasureSilence, SetTimer
from firesteel.plan.heartbeat import HeartbeatSettings

__all__ = ["HeartbeatMonitor"]

#: A look that comes this many intervals after the last one comes from a master that was asleep.
_ASLEEP_INTERVALS = 2.0
#: Looks are not closer than this fraction of an interval: somebody may be silent for a moment longer.
_CLOSEST = 0.1


class HeartbeatMonitor:
    """Watches one attempt after the other. ``settings`` None: nobody is watched."""

    def __init__(self, settings: HeartbeatSettings | None) -> None:
        self._settings = settings
        self._attempt: int | None = None
        self._looked_at = 0.0
        self._listening_since = 0.0

    def begin(self, attempt: int, now: float) -> list[SetTimer]:
        """The attempt starts; returns the timer of the first look at it, nothing when nobody is watched."""
        if self._settings is None:
            return []
        self._attempt = attempt
        self._looked_at = self._listening_since = now
        return [SetTimer(attempt, Timer.HEARTBEAT, self._settings.interval)]

    def end(self) -> None:
        """It is over, or being ended: who is silent now is dealt with by other means."""
        self._attempt = None

    def elapsed(self, event: TimerElapsed, now: float) -> list[MeasureSilence]:
        """It is time to look."""
        settings = self._settings
        if settings is None or event.attempt != self._attempt:
            return []
        if now - self._looked_at > _ASLEEP_INTERVALS * settings.interval:
            self._listening_since = now
        self._looked_at = now
        return [MeasureSilence(event.attempt)]

    def measured(
        self, event: SilenceMeasured, now: float
    ) -> tuple[list[TaskSilent | EngineSilent], list[SetTimer]]:
        """The answer to `MeasureSilence`: who is lost, and when to look again."""
        settings = self._settings
        if settings is None or event.attempt != self._attempt:
            return [], []
        longest = now - self._listening_since  # nobody was listened to for longer
        lost: list[TaskSilent | EngineSilent] = []
        silence = 0.0
        for origin, seconds in event.tasks:
            seconds = min(seconds, longest)
            if seconds >= settings.timeout:
                lost.append(TaskSilent(origin, seconds, settings.timeout))
            else:
                silence = max(silence, seconds)
        if event.engine is not None:
            seconds = min(event.engine, longest)
            if seconds >= settings.timeout:
                lost.append(EngineSilent(event.attempt, seconds, settings.timeout))
            else:
                silence = max(silence, seconds)
        pause = min(settings.interval, max(settings.timeout - silence, settings.interval * _CLOSEST))
        return lost, [SetTimer(event.attempt, Timer.HEARTBEAT, pause)]
