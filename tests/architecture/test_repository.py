"""The repository's files agree with each other and name nothing that exists on one machine only."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import firesteel

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

# Put together from pieces, so that this file does not contain what it forbids.
REGISTRIES = [
    "py" + "pi.org",
    "python" + "hosted.org",
    "repo1." + "maven.org",
    "repo.maven." + "apache.org",
    "registry." + "npmjs.org",
    "registry." + "yarnpkg.com",
    "conda." + "anaconda.org",
    "static." + "crates.io",
]
BUILD_MACHINE = [r"(?<![\w.-])/" + "work/", r"(?<![\w.-])/" + "root/", "/tmp/" + r"w(?!\w)"]
FORBIDDEN = re.compile("|".join([*map(re.escape, REGISTRIES), *BUILD_MACHINE]))


def repository_files() -> list[Path]:
    """Return what is or would be committed."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in done.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def text_of(path: Path) -> str:
    """Return the file's text, or nothing for a binary file."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def test_no_file_names_a_package_registry_or_a_build_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in repository_files()
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if (match := FORBIDDEN.search(line))
    ]
    assert found == []


@pytest.mark.parametrize(
    "text", ["see https://py" + "pi.org/simple", 'open("/' + 'work/x")', "/tmp/" + "w/y"]
)
def test_forbidden_text_is_recognised(text: str) -> None:
    assert FORBIDDEN.search(text)


@pytest.mark.parametrize("text", ["/opt/spark/work/app-1", "/tmp/words.txt", "PyPI"])
def test_similar_text_is_allowed(text: str) -> None:
    assert not FORBIDDEN.search(text)


def test_no_leftovers_of_tools() -> None:
    leftovers = {".orig", ".rej", ".bak", ".swp", ".tmp"}
    assert [path for path in repository_files() if path.suffix in leftovers or path.name.endswith("~")] == []


def test_version_is_the_same_everywhere() -> None:
    version = PROJECT["project"]["version"]
    assert firesteel.__version__ == version
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("lock", "requirements"),
    [
        ("requirements.lock", PROJECT["project"]["dependencies"]),
        ("requirements-dev.lock", PROJECT["project"]["dependencies"] + PROJECT["dependency-groups"]["dev"]),
        ("requirements-build.lock", PROJECT["dependency-groups"]["build"]),
        ("requirements-java.lock", PROJECT["project"]["optional-dependencies"]["java"]),
        ("requirements-docs.lock", PROJECT["dependency-groups"]["docs"]),
    ],
)
def test_lock_covers_the_declared_dependencies(lock: str, requirements: list[str]) -> None:
    locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / lock).read_text(encoding="utf-8"), re.MULTILINE))
    declared = {re.split(r"[\s<>=!~;\[]", requirement, maxsplit=1)[0].lower() for requirement in requirements}
    assert declared - locked == set(), "run scripts/lock"
