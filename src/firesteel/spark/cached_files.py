"""Where Spark put the files that were registered with ``env.register_cached_file``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from pyspark import SparkFiles

from firesteel.common.errors import ProgramError
from firesteel.common.options import CACHED_FILES


def local_path(name: str, options: Mapping[str, str]) -> str:
    """The local copy of the file registered as ``name``."""
    text = options.get(CACHED_FILES.key)
    registered: dict[str, str] = json.loads(text) if text else {}
    if name not in registered:
        raise ProgramError(f"no cached file {name!r}; registered are {sorted(registered)}")
    return str(SparkFiles.get(os.path.basename(registered[name].rstrip("/"))))
