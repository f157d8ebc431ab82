"""A Java that does what a shell script says: for tests of what happens around Spark's driver process, without one."""

from __future__ import annotations

import textwrap
from pathlib import Path

__all__ = ["LISTENS", "NEVER_LISTENS", "make_java"]

#: Port 258 and the secret "abc", as Spark's gateway tells them; then it waits for the end of its input.
LISTENS = r"""
printf '\000\000\001\002\000\000\000\003abc' > "$_PYSPARK_DRIVER_CONN_INFO_PATH.part"
mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.part" "$_PYSPARK_DRIVER_CONN_INFO_PATH"
cat > /dev/null
"""
#: Starts for ever.
NEVER_LISTENS = "cat > /dev/null"


def make_java(directory: Path, script: str) -> Path:
    """A new ``JAVA_HOME``; the script's number and arguments are appended to ``directory/started``, a line each time."""
    home = directory / "java"
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "lib" / "modules").touch()
    (home / "release").write_text('JAVA_VERSION="17.0.1"\nMODULES="java.base jdk.incubator.vector"\n')
    java = home / "bin" / "java"
    java.write_text(f'#!/bin/sh\necho "$$ $*" >> {directory}/started\n{textwrap.dedent(script)}\n')
    java.chmod(0o755)
    return home
