"""What a service is like, read from options, checked and typed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from firesteel.checkpoint.storage import absolute
from firesteel.common import options
from firesteel.common._home import home_directory
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.rest.settings import RestSettings, read_rest_settings

__all__ = ["ServiceSettings", "read_service_settings", "service_folder"]

#: A slot is a task of a stage. In an embedded Spark it is a thread that mostly waits, so there are more than processors.
_LEAST_SLOTS, _SLOTS_PER_PROCESSOR = 64, 16
EMBEDDED = "embedded"

#: Options of the service itself, which its jobs do not get.
_OWN = (
    "rest.",
    "firesteel.cluster.",
    "high-availability",
    "jobstore.",
    "historyserver.",
    "jobmanager.archive.",
)


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """``archive``: where jobs go that have ended. ``defaults``: options of every job that does not say otherwise."""

    folder: Path
    rest: RestSettings
    slots: int
    spare_drivers: int
    archive: str
    kept_jobs: int
    defaults: Mapping[str, str]
    has_standby: bool = False


def service_folder(configuration: Configuration) -> Path:
    """Where the service writes down what it knows; with standby services a folder that all of them see."""
    given = configuration.get(options.CLUSTER_DIR)
    if configuration.get(options.HIGH_AVAILABILITY) == "NONE":
        return Path(given).expanduser().absolute() if given else home_directory() / "cluster"
    shared = configuration.get(options.HIGH_AVAILABILITY_DIR)
    if not shared:
        raise InvalidOptionError(
            f"option '{options.HIGH_AVAILABILITY.key}': another service can take over only from a folder that both see; set "
            f"'{options.HIGH_AVAILABILITY_DIR.key}'"
        )
    path = absolute(shared)
    if "://" in path and not path.startswith("file://"):
        raise InvalidOptionError(
            f"option '{options.HIGH_AVAILABILITY_DIR.key}': expected a directory of a file system that all services see, got "
            f"{shared!r}"
        )
    cluster_id = (configuration.get(options.HIGH_AVAILABILITY_CLUSTER_ID) or "default").strip("/")
    return Path(path.removeprefix("file://")) / "cluster" / cluster_id


def read_service_settings(configuration: Configuration, given: Mapping[str, str]) -> ServiceSettings:
    """The settings; ``given`` are options of the command line, which jobs get, too."""
    rest = read_rest_settings(configuration)
    if rest is None:
        raise InvalidOptionError(f"option '{options.REST_PORT.key}': a service without a port is of no use")
    folder = service_folder(configuration)
    slots = configuration.get(options.CLUSTER_SLOTS)
    spares = configuration.get(options.CLUSTER_SPARE_DRIVERS)
    kept = configuration.get(options.JOBSTORE_CAPACITY)
    for option, value, least in (
        (options.CLUSTER_SLOTS, slots, 1),
        (options.CLUSTER_SPARE_DRIVERS, spares, 0),
        (options.JOBSTORE_CAPACITY, kept, 1),
    ):
        if value is not None and value < least:
            raise InvalidOptionError(f"option '{option.key}': expected at least {least}, got {value}")
    archive = configuration.get(options.ARCHIVE_DIR)
    is_embedded = configuration.get(options.SPARK_MASTER) == EMBEDDED
    return ServiceSettings(
        folder,
        rest,
        slots or max(_LEAST_SLOTS, _SLOTS_PER_PROCESSOR * (os.cpu_count() or 1)),
        # On a cluster a Spark that waits would hold executors that others need.
        spares if is_embedded else 0,
        absolute(archive) if archive else str(folder / "archive"),
        kept,
        {key: value for key, value in given.items() if not key.startswith(_OWN)},
        configuration.get(options.HIGH_AVAILABILITY) != "NONE",
    )
