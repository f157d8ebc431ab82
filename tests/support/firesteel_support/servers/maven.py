"""Servers that run on Java: their jars come once from Maven's repository and stay in the user's cache.

They are fetched by mvn, or else by Apache Ivy, which is among PySpark's jars.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from firesteel_support.servers import cache, missing, one_at_a_time

__all__ = ["jars", "java"]


def java(server: str, program: str = "java") -> str:
    """The path of Java, or of another program that comes with it; without it the test is skipped."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(program, path=f"{home}/bin") if home else None
    found = found or shutil.which(program)
    if found is None:
        missing(server, f"there is no {program}, which it needs")
    assert found is not None
    return found


def jars(server: str, name: str, *modules: str) -> Path:
    """The directory ``name`` with the jars of modules (``group:artifact:version``) and of all that they need.

    It is made once, and put in its place by renaming, so that a process that is ended leaves no part of it there.
    """
    place = cache() / name
    with one_at_a_time("jars"), tempfile.TemporaryDirectory(dir=cache()) as work:
        if place.is_dir():
            return place
        fetched = Path(work) / "jars"
        maven = shutil.which("mvn")
        command = (
            _maven(maven, Path(work), fetched, modules)
            if maven
            else _ivy(server, Path(work), fetched, modules)
        )
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        _, artifact, version = modules[0].split(":")
        if done.returncode or not (fetched / f"{artifact}-{version}.jar").is_file():
            missing(server, f"its jars cannot be fetched: {(done.stderr or done.stdout).strip()[-300:]}")
        fetched.rename(place)
    return place


def _maven(maven: str, work: Path, fetched: Path, modules: tuple[str, ...]) -> list[str]:
    wanted = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
        for group, artifact, version in (module.split(":") for module in modules)
    )
    (work / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>firesteel</groupId><artifactId>server-for-tests</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{wanted}</dependencies></project>"
    )
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={fetched}"]
    return [maven, "-q", "-B", "-f", str(work / "pom.xml"), *goal]


def _ivy(server: str, work: Path, fetched: Path, modules: tuple[str, ...]) -> list[str]:
    import pyspark

    found = list((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    if not found:
        missing(server, "its jars are fetched by mvn or by Ivy, and neither is here")
    wanted = "".join(
        f'<dependency org="{group}" name="{artifact}" rev="{version}" conf="default->default"/>'
        for group, artifact, version in (module.split(":") for module in modules)
    )
    (work / "ivy.xml").write_text(
        '<ivy-module version="2.0"><info organisation="firesteel" module="server-for-tests"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{wanted}</dependencies></ivy-module>'
    )
    where = [
        "-cache",
        str(work / "ivy"),
        "-retrieve",
        f"{fetched}/[artifact]-[revision](-[classifier]).[ext]",
    ]
    return [java(server), "-jar", str(found[0]), "-ivy", str(work / "ivy.xml"), "-confs", "default", *where]
