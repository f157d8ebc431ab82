"""Reads how often signs of life are given from the options."""

from __future__ import annotations

from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.common.options import HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT
from firesteel.plan.heartbeat import HeartbeatSettings

__all__ = ["read_heartbeat"]


def read_heartbeat(configuration: Configuration) -> HeartbeatSettings:
    """The options as seconds; raises `InvalidOptionError` for values that cannot work."""
    interval = configuration.get(HEARTBEAT_INTERVAL).to_millis() / 1000
    timeout = configuration.get(HEARTBEAT_TIMEOUT).to_millis() / 1000
    if interval <= 0:
        raise InvalidOptionError(
            f"option '{HEARTBEAT_INTERVAL.key}': expected more than 0, got {interval:g} s"
        )
    if timeout < 2 * interval:
        raise InvalidOptionError(
            f"option '{HEARTBEAT_TIMEOUT.key}': expected at least twice '{HEARTBEAT_INTERVAL.key}', which is "
            f"{interval:g} s, got {timeout:g} s; a sign of life that comes a little late must not end a task"
        )
    return HeartbeatSettings(interval, timeout)
