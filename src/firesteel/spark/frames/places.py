"""Where DataFrames are written for jobs, and jobs write for DataFrames."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from pyspark.sql import SparkSession

from firesteel.common.errors import ProgramError
from firesteel.spark.process_directory import process_directory
from firesteel.spark.session import is_local

__all__ = ["new_place"]


def new_place(session: SparkSession, directory: str | None, operation: str) -> Path:
    """A new folder: below a directory, or, on one machine, below that of this process, which goes with it."""
    if directory is not None:
        parent = Path(os.path.abspath(directory))
    elif is_local(session):
        parent = process_directory("frames")
    else:
        raise ProgramError(
            f"{operation} goes through files, and on a cluster all machines have to see them: give it a directory=... that "
            "they share"
        )
    place = parent / f"frame-{uuid.uuid4().hex}"
    place.mkdir(parents=True, mode=0o700)
    return place
