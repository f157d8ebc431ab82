"""Keeping the classes of a JVM: what is used, what is not, and who makes it. A script stands for Java."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from firesteel._java import JavaRuntime
from firesteel.spark.class_archive import SWITCH_VARIABLE, ClassArchive, _Order, make

#: Writes what it was given as classes into the archive that it was asked for.
DUMPS = """#!/bin/sh
for argument; do
  case "$argument" in
    -XX:SharedClassListFile=*) classes=${argument#*=};;
    -XX:SharedArchiveFile=*) archive=${argument#*=};;
  esac
done
cat "$classes" > "$archive"
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where archives are kept."""
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)  # not in a virtual environment: the cache of the user
    return tmp_path / "cache" / "firesteel" / "classes"


def java(tmp_path: Path, script: str = DUMPS) -> JavaRuntime:
    command = tmp_path / "java" / "bin" / "java"
    command.parent.mkdir(parents=True, exist_ok=True)
    command.write_text(script)
    command.chmod(0o755)
    return JavaRuntime(tmp_path / "java", "17.0.1", "JAVA_HOME")


def archive(tmp_path: Path, *options: str, script: str = DUMPS, **variables: str) -> ClassArchive:
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), **variables}
    return ClassArchive(java(tmp_path, script), [str(tmp_path / "a.jar")], options, environ)


def noted(tmp_path: Path, *options: str, script: str = DUMPS) -> _Order:
    """What is to be done after a JVM with these options has noted its classes and ended."""
    fresh = archive(tmp_path, *options, script=script)
    (option,) = fresh.options()
    classes = option.removeprefix("-XX:DumpLoadedClassList=")
    Path(classes).write_text("java/lang/Object\n")
    ended = subprocess.Popen(["true"])
    ended.wait()
    return _Order(
        str(tmp_path / "java" / "bin" / "java"),
        [*options],
        classes,
        str(Path(classes).parent),
        fresh._key,
        ended.pid,
    )


def test_first_jvm_notes_its_classes_and_the_next_one_uses_them(tmp_path: Path, cache: Path) -> None:
    make(noted(tmp_path))
    (made,) = cache.glob("*.jsa")
    assert made.read_text() == "java/lang/Object\n"
    assert not list(cache.glob("*.classes"))
    assert archive(tmp_path).options()[0] == f"-XX:SharedArchiveFile={made}"


def test_only_its_user_can_write_it(tmp_path: Path, cache: Path) -> None:
    make(noted(tmp_path))
    (made,) = cache.glob("*.jsa")
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    for path in (made, cache):
        mode = path.stat().st_mode
        path.chmod(mode | 0o020)
        assert "SharedArchiveFile" not in " ".join(archive(tmp_path).options())
        path.chmod(mode)


def test_archive_that_was_cut_off_is_not_used(tmp_path: Path, cache: Path) -> None:
    make(noted(tmp_path))
    (made,) = cache.glob("*.jsa")
    made.write_bytes(made.read_bytes()[:-1])
    assert "SharedArchiveFile" not in " ".join(archive(tmp_path).options())


def test_other_options_jars_or_java_are_another_archive(tmp_path: Path, cache: Path) -> None:
    make(noted(tmp_path))
    assert "DumpLoadedClassList" in archive(tmp_path, "-Xmx3g").options()[0]
    (tmp_path / "a.jar").write_text("new")
    assert "DumpLoadedClassList" in archive(tmp_path).options()[0]


def test_what_java_cannot_do_is_not_tried_again(tmp_path: Path, cache: Path) -> None:
    make(noted(tmp_path, script="#!/bin/sh\nexit 1\n"))
    assert archive(tmp_path).options() == []
    assert not list(cache.glob("*.jsa")) + list(cache.glob("*.partial")) + list(cache.glob("*.classes"))


def test_of_two_that_would_make_it_one_does(tmp_path: Path, cache: Path) -> None:
    order = noted(tmp_path)
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        make(order)
    assert [file.name for file in cache.iterdir()] == ["lock"]


def test_those_that_were_not_used_for_longest_are_removed(tmp_path: Path, cache: Path) -> None:
    for number in range(4):
        make(noted(tmp_path, f"-Xmx{number + 1}g"))
        for age, file in enumerate(cache.glob("*.jsa")):
            os.utime(file, (number * 100 + age, number * 100 + age))
    assert len(list(cache.glob("*.jsa"))) == 3
    assert "SharedArchiveFile" in archive(tmp_path, "-Xmx4g").options()[0]


def test_nothing_is_done_where_it_is_switched_off_or_nothing_can_be_written(
    tmp_path: Path, cache: Path
) -> None:
    assert archive(tmp_path, **{SWITCH_VARIABLE: "0"}).options() == []
    assert not cache.exists()
    (tmp_path / "cache").write_text("a file where the directory should be")
    assert archive(tmp_path).options() == []


def test_classes_of_a_program_without_a_job_are_dropped(tmp_path: Path, cache: Path) -> None:
    fresh = archive(tmp_path)
    classes = Path(fresh.options()[0].removeprefix("-XX:DumpLoadedClassList="))
    classes.write_text("java/lang/Object\n")
    fresh.make_after(os.getpid())
    assert not classes.exists()
