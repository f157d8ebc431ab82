"""What the page on errors says: errors on purpose are ours, but for those that it names."""

from __future__ import annotations

import ast
import builtins
from fnmatch import fnmatch
from pathlib import Path

import firesteel

SOURCES = Path(firesteel.__file__).parent

#: Where Python's own errors are raised by name, and why that is right there; docs/errors.md says the same to users.
PYTHONS_OWN = {
    "values behave as Python's do": [
        "common/types.py", "common/_type_*.py", "common/_data_types.py", "common/_metric_values.py", "common/accumulators.py", "state/elements.py",
        "jobmaster/statistics.py",
    ],
    "becomes an InvalidOptionError that names the option": ["common/_option_types.py", "common/options.py"],
    "names that do not exist": ["common/__init__.py", "common/_did_you_mean.py", "common/_missing_modules.py"],
    "becomes a DeserializationError or TypeMismatchError that names the message or value": ["formats/*"],
    "methods that a class of the user's has to bring": [
        "contracts/source.py", "contracts/sink.py", "common/job_client.py",
    ],
    "becomes the reason of a job's error": [
        "runtime/*", "connectors/*", "formats/*", "spark/task_shell.py", "contracts/functions.py", "contracts/stream_operators.py",
        "control/*", "plan/results.py",
    ],
    "comes to nobody but ourselves": [
        "checkpoint/local_storage.py", "checkpoint/repository.py", "jobmaster/attempt.py",
        "jobmaster/checkpoints/statistics.py", "rest/listener.py",
    ],
    "as a Python that starts a program says it": ["pyflink_alias.py"],
}  # fmt: skip


def raised_by_name() -> list[tuple[str, str]]:
    """Files and names of errors of Python that are raised there; not those of mistakes of ours and of abstract methods."""
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Raise(exc=ast.Call(func=ast.Name(id=name)) | ast.Name(id=name)):
                    error = getattr(builtins, name, None)
                    is_abstract = name == "NotImplementedError" and isinstance(node.exc, ast.Name)
                    is_ours = name in ("AssertionError", "StopIteration")
                    if isinstance(error, type) and not is_ours and not is_abstract:
                        found.append((path.relative_to(SOURCES).as_posix(), name))
    return found


def test_errors_on_purpose_are_firesteel_errors_but_for_those_that_the_page_names() -> None:
    places = [pattern for patterns in PYTHONS_OWN.values() for pattern in patterns]
    others = [
        (file, name) for file, name in raised_by_name() if not any(fnmatch(file, each) for each in places)
    ]
    assert others == [], "raise an error of common/errors.py, or say here and in docs/errors.md why not"


def test_every_exception_from_the_rule_is_needed() -> None:
    files = {file for file, _ in raised_by_name()}
    places = [pattern for patterns in PYTHONS_OWN.values() for pattern in patterns]
    assert [each for each in places if not any(fnmatch(file, each) for file in files)] == []
