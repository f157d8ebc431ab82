"""Names of files and directories of checkpoints and savepoints.

::

    <checkpoint directory>/<job id>/        root of a job's checkpoints
        _job                                  whose directory this is
        epoch-<n>-<random>                    the driver that runs the job now is its n-th
        accepted-<n>                          the checkpoints that were there when it took the job over
        chk-<id>/_metadata                    the manifest: it exists = the checkpoint is complete
        chk-<id>/<files>                      state that only this checkpoint refers to
        shared/<files>                        state that later checkpoints may refer to
        savepoint-of-<id>                     where a savepoint lies that the job may have to resume from
    <savepoint directory>/savepoint-<first 6 of job id>-<random>/
        _metadata, <files>                    nothing outside is referred to, so it may be moved

A state file is named ``<vertex>-<subtask>-<attempt>-<checkpoint id>``.
"""

from __future__ import annotations

import re
import secrets

from firesteel.checkpoint.storage import join_uri, open_storage

__all__ = [
    "JOB_MARKER",
    "METADATA",
    "SHARED",
    "accepted_file",
    "checkpoint_directory",
    "checkpoint_of_directory",
    "checkpoint_of_file",
    "checkpoint_of_pointer",
    "epoch_file",
    "epoch_of_accepted",
    "epoch_of_file",
    "metadata_file",
    "savepoint_directory",
    "savepoint_pointer",
    "state_file",
]

METADATA = "_metadata"
JOB_MARKER = "_job"
SHARED = "shared"
_CHECKPOINT = re.compile(r"chk-(\d+)")
_POINTER = re.compile(r"savepoint-of-(\d+)")
_ACCEPTED = re.compile(r"accepted-(\d+)")
_EPOCH = re.compile(r"epoch-(\d+)(?:-[0-9a-f]+)?")
_STATE_FILE = re.compile(r"\d+-\d+-\d+-(\d+)")


def checkpoint_directory(checkpoint_id: int) -> str:
    """The directory of a checkpoint in the root of its job.

    >>> checkpoint_directory(7)
    'chk-7'
    """
    return f"chk-{checkpoint_id}"


def metadata_file(checkpoint_id: int) -> str:
    """The manifest of a checkpoint in the root of its job."""
    return f"{checkpoint_directory(checkpoint_id)}/{METADATA}"


def state_file(directory: str, vertex: int, subtask: int, attempt: int, checkpoint_id: int) -> str:
    """The file for the state of one vertex's subtask, below ``directory`` (empty for the root itself).

    >>> state_file("shared", vertex=2, subtask=0, attempt=5, checkpoint_id=7)
    'shared/2-0-5-7'
    """
    name = f"{vertex}-{subtask}-{attempt}-{checkpoint_id}"
    return f"{directory}/{name}" if directory else name


def savepoint_pointer(checkpoint_id: int) -> str:
    """The file in the root of a job that says where the savepoint of this id lies."""
    return f"savepoint-of-{checkpoint_id}"


def epoch_file(epoch: int) -> str:
    """A new name for the file that a job's n-th driver makes; no other driver makes one of the same name."""
    return f"epoch-{epoch}-{secrets.token_hex(8)}"


def accepted_file(epoch: int) -> str:
    """The file in which a job's n-th driver writes down what it has found."""
    return f"accepted-{epoch}"


def epoch_of_accepted(name: str) -> int | None:
    """The number of the driver that wrote down what it has found, None for other names."""
    return _number(_ACCEPTED, name)


def checkpoint_of_directory(name: str) -> int | None:
    """The id of a checkpoint's directory, None for other names."""
    return _number(_CHECKPOINT, name)


def checkpoint_of_pointer(name: str) -> int | None:
    """The id of the savepoint that a file in the root of a job points to, None for other names."""
    return _number(_POINTER, name)


def epoch_of_file(name: str) -> int | None:
    """The number of a driver's file, None for other names."""
    return _number(_EPOCH, name)


def checkpoint_of_file(name: str) -> int | None:
    """The id of the checkpoint that wrote a state file, None for other names.

    >>> checkpoint_of_file("2-0-5-7"), checkpoint_of_file("README")
    (7, None)
    """
    return _number(_STATE_FILE, name)


def savepoint_directory(base: str, job_id: str) -> str:
    """A new directory for a savepoint below ``base``, as URI; it is not made yet."""
    storage = open_storage(base)
    while True:
        name = f"savepoint-{job_id[:6]}-{secrets.token_hex(6)}"
        if not storage.list(name):
            return join_uri(storage.uri, name)


def _number(pattern: re.Pattern[str], name: str) -> int | None:
    match = pattern.fullmatch(name)
    return None if match is None else int(match[1])
