"""How this process reaches object stores: what the options of its job say about addresses and keys.

As Flink's file systems, those of a process have one set of settings. The driver takes them over from the job that it
prepares, a task from the job that it belongs to. Keys are secret: they are in no text that anybody prints, and in nothing that
travels where others may read it (`_redaction`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from firesteel.common import options
from firesteel.common.configuration import Configuration

__all__ = ["StoreSettings", "current", "use", "use_only"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """What is known about stores that speak S3; None: whatever the environment of the process says.

    >>> StoreSettings(endpoint="http://localhost:9000", secret_key="do not tell")
    StoreSettings(endpoint='http://localhost:9000', region=None, path_style=None, ssl=True, attempts=3, request_seconds=30.0, connect_seconds=5.0)
    """

    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    endpoint: str | None = None
    region: str | None = None
    path_style: bool | None = None
    ssl: bool = True
    attempts: int = 3
    request_seconds: float = 30.0
    connect_seconds: float = 5.0

    @staticmethod
    def of(configuration: Configuration) -> StoreSettings:
        """What the options of a job say."""
        get = configuration.get
        return StoreSettings(
            get(options.S3_ACCESS_KEY),
            get(options.S3_SECRET_KEY),
            get(options.S3_SESSION_TOKEN),
            get(options.S3_ENDPOINT),
            get(options.S3_REGION),
            get(options.S3_PATH_STYLE),
            get(options.S3_SSL),
            get(options.S3_ATTEMPTS),
            get(options.S3_REQUEST_TIMEOUT).to_millis() / 1000,
            get(options.S3_CONNECT_TIMEOUT).to_millis() / 1000,
        )


_NOTHING_SAID = StoreSettings()
_current = _NOTHING_SAID


def use(configuration: Configuration) -> None:
    """From now on stores are opened as a job's options say; a job that says nothing leaves them as they are."""
    global _current
    settings = StoreSettings.of(configuration)
    if settings in (_NOTHING_SAID, _current):
        return
    if _current != _NOTHING_SAID:
        _LOG.warning(
            "this program has started a job with other options for S3 before; a process has one set of them, so from now on "
            "files in stores are looked for with those of the job that starts now"
        )
    _current = settings


def use_only(configuration: Configuration) -> None:
    """Stores are opened as these options say, and nothing is left of what a process was told before."""
    global _current
    _current = StoreSettings.of(configuration)


def current() -> StoreSettings:
    """How stores are opened now."""
    return _current
