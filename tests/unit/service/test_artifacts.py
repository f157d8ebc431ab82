"""Uploaded programs: names and contents that are no programs are refused, and nobody reaches other files."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from firesteel.rest.errors import Malformed, NotFound
from firesteel.service.artifacts import Artifacts, checked_name
from firesteel.service.programs import submission_of


def zipped(**files: str) -> io.BytesIO:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/") + ".py" if name != "main" else "__main__.py", text)
    content.seek(0)
    return content


def request(entry: str = "") -> dict[str, object]:
    return {"entry": entry, "arguments": (), "options": {}}


def test_an_artifact_is_kept_until_it_is_deleted(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path)
    made = artifacts.add("job.py", io.BytesIO(b"print(1)"))
    assert [each.name for each in artifacts.all()] == ["job.py"]
    assert made.path.read_bytes() == b"print(1)"
    assert made.entries == ["job"]
    artifacts.delete(made.id)
    assert artifacts.all() == []
    with pytest.raises(NotFound):
        artifacts.delete(made.id)


@pytest.mark.parametrize(
    "name", ["", ".py", "..", "a\x00.py", "a\n.py", ".hidden.py", "x" * 300 + ".py", 'a".py']
)
def test_names_that_are_no_plain_names_are_refused(name: str) -> None:
    with pytest.raises(Malformed):
        checked_name(name)


@pytest.mark.parametrize("name", ["../../job.py", "C:\\programs\\job.py", "/etc/job.py", "job.py"])
def test_only_the_last_part_of_a_path_is_the_name(name: str) -> None:
    assert checked_name(name) == "job.py"


def test_only_programs_are_taken(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path)
    with pytest.raises(Malformed, match=r"\.py, \.zip, \.whl"):
        artifacts.add("job.jar", io.BytesIO())
    with pytest.raises(Malformed, match="no zip archive"):
        artifacts.add("job.zip", io.BytesIO(b"print(1)"))
    assert list(tmp_path.iterdir()) == [], "nothing is left of what was refused"


def test_a_path_is_no_artifact(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    with pytest.raises(NotFound):
        Artifacts(tmp_path / "jars" if (tmp_path / "jars").mkdir() is None else tmp_path).find("../secret")


def test_an_archive_runs_its_main_or_a_module_that_is_named(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path)
    with_main = artifacts.add("job.zip", zipped(main="", words=""))
    without = artifacts.add("lib-1.0-py3-none-any.whl", zipped(words=""))
    assert submission_of(with_main, request(), "1").script == "job.zip"
    named = submission_of(without, request("words"), "1")
    assert (named.script, named.module, named.python_files) == (None, "words", (without.name,))
    with pytest.raises(Malformed, match="has to be named"):
        submission_of(without, request(), "1")
    with pytest.raises(Malformed, match="is one module"):
        submission_of(artifacts.add("job.py", io.BytesIO()), request("other"), "1")
