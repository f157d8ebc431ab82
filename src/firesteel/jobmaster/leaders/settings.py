"""Whether a job has standby drivers, and how they find each other: read from its options, checked and typed."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from firesteel.checkpoint.storage import absolute, check_writable, join_uri
from firesteel.common import options
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.common.job_id import JobID
from firesteel.jobmaster.checkpoints.settings import CheckpointSettings

__all__ = ["HighAvailability", "check_lease_directory", "configured_id", "read_high_availability"]

#: A lease may not be shorter than this, in seconds: storage takes its time.
_SHORTEST = 0.1
_CLUSTER_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class HighAvailability:
    """How the drivers of one job choose their leader; the same for all of them, because their options are the same.

    ``directory`` holds the lease, ``lease_timeout`` is in seconds, and so is ``patience`` with a directory that is out of
    reach when the driver starts.
    """

    job_id: JobID
    directory: str
    lease_timeout: float
    patience: float = 0.0

    @property
    def interval(self) -> float:
        """Seconds between two signs of life of the leader, and between two looks of a standby."""
        return self.lease_timeout / 4


def read_high_availability(
    configuration: Configuration, job_name: str, checkpoints: CheckpointSettings | None
) -> HighAvailability | None:
    """The settings; None when the job has one driver only.

    Drivers of one job must agree on its id before any of them has run it, so it follows from the options.
    """
    if configuration.get(options.HIGH_AVAILABILITY) == "NONE":
        return None
    if checkpoints is None or checkpoints.directory is None:
        raise InvalidOptionError(
            f"option '{options.HIGH_AVAILABILITY.key}': another driver can take job '{job_name}' over only from "
            f"checkpoints in a directory; set '{options.CHECKPOINTING_INTERVAL.key}' and "
            f"'{options.CHECKPOINTING_DIR.key}', in STREAMING mode"
        )
    cluster_id = _cluster_id(configuration)
    job_id = configured_id(configuration) or _derived_id(cluster_id, job_name)
    base = configuration.get(options.HIGH_AVAILABILITY_DIR)
    directory = checkpoints.directory if base is None else absolute(base)
    segments = ("leaders", *filter(None, (cluster_id,)), str(job_id))
    patience = configuration.get(options.STORAGE_PATIENCE).to_millis() / 1000
    return HighAvailability(job_id, join_uri(directory, *segments), _lease_timeout(configuration), patience)


def check_lease_directory(settings: HighAvailability) -> None:
    """Refuse a directory in which no leader can be chosen."""
    check_writable(settings.directory, "directory of the lease", f"'{options.HIGH_AVAILABILITY_DIR.key}'")


def configured_id(configuration: Configuration) -> JobID | None:
    """The id that the options give the job."""
    text = configuration.get(options.JOB_ID)
    try:
        return None if text is None else JobID(text)
    except ValueError as error:
        raise InvalidOptionError(f"option '{options.JOB_ID.key}': {error}") from error


def _derived_id(cluster_id: str, job_name: str) -> JobID:
    return JobID(hashlib.md5(f"{cluster_id}\n{job_name}".encode(), usedforsecurity=False).hexdigest())


def _cluster_id(configuration: Configuration) -> str:
    text = configuration.get(options.HIGH_AVAILABILITY_CLUSTER_ID) or ""
    cluster_id = text.strip("/")
    if cluster_id and not _CLUSTER_ID.fullmatch(cluster_id):
        raise InvalidOptionError(
            f"option '{options.HIGH_AVAILABILITY_CLUSTER_ID.key}': it becomes a part of a directory's name, so it "
            f"consists of letters, digits, '-', '_', '.' and '/', got {text!r}"
        )
    return cluster_id


def _lease_timeout(configuration: Configuration) -> float:
    option = options.HIGH_AVAILABILITY_LEASE_TIMEOUT
    seconds = configuration.get(option).to_millis() / 1000
    if seconds < _SHORTEST:
        raise InvalidOptionError(f"option '{option.key}': expected at least {_SHORTEST} s, got {seconds} s")
    return seconds
