"""Makes the build context of an image with one job: its program, the files it imports, the packages it needs.

    scripts/job_image word_count.py --requirements requirements.txt --output build/word-count
    docker build -t word-count:1 build/word-count

Needs nothing but Python's standard library, so that it runs wherever images are built.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

BASE = "firesteel:0.1.0"
#: Where the job is in the image.
PLACE = "/opt/job"
USER = "10001:10001"


class ContextError(Exception):
    """What was asked for cannot be put into an image."""


def make_context(
    program: Path,
    output: Path,
    *,
    files: Sequence[Path] = (),
    requirements: Path | None = None,
    wheels: Path | None = None,
    options: Sequence[str] = (),
    base: str = BASE,
) -> None:
    """Write the context into a directory, which must be empty or not there yet."""
    _check(program, output, files, requirements, wheels)
    job = output / "job"
    job.mkdir(parents=True)
    for file in (program, *files):
        _copy(file, job / file.name)
    if requirements is not None:
        shutil.copy2(requirements, output / "requirements.txt")
    if wheels is not None:
        shutil.copytree(wheels, output / "wheels")
    text = _dockerfile(base, program.name, requirements is not None, wheels is not None, options)
    (output / "Dockerfile").write_text(text, encoding="utf-8")


def _check(
    program: Path, output: Path, files: Sequence[Path], requirements: Path | None, wheels: Path | None
) -> None:
    if program.suffix != ".py" or not program.is_file():
        raise ContextError(f"the program must be a Python file, and {program} is none")
    for file in (*files, *filter(None, [requirements])):
        if not file.exists():
            raise ContextError(f"there is no {file}")
    if wheels is not None and requirements is None:
        raise ContextError("--wheels says where packages come from, and --requirements has to say which")
    if wheels is not None and not any(wheels.glob("*.whl")):
        raise ContextError(f"{wheels} is no directory with wheels; 'pip wheel -r FILE -w {wheels}' makes one")
    names = [file.name for file in (program, *files)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ContextError(f"two files are called {', '.join(twice)}, and all of them go into one directory")
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ContextError(f"{output} is there already; name a directory that is empty, or remove it")


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", ".git", ".venv"))
    else:
        shutil.copy2(source, target)


def _dockerfile(
    base: str, program: str, has_requirements: bool, has_wheels: bool, options: Sequence[str]
) -> str:
    lines = [f"FROM {base}"]
    if has_requirements:
        lines += ["USER 0:0", "COPY requirements.txt /opt/requirements/"]
        source = ""
        if has_wheels:
            lines.append("COPY wheels /opt/requirements/wheels")
            source = "--no-index --find-links /opt/requirements/wheels "
        lines.append(f"RUN pip install --no-cache-dir {source}-r /opt/requirements/requirements.txt")
        lines.append(f"USER {USER}")
    lines.append(f"COPY job {PLACE}")
    # Modules beside the program: the driver finds them there, and executors are made from the same image.
    lines.append(f"ENV PYTHONPATH={PLACE}")
    lines.append(f"CMD {json.dumps(['run', '--resume', *options, f'{PLACE}/{program}'])}")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="job_image", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", type=Path, help="the Python file that is run")
    parser.add_argument("--output", type=Path, required=True, help="where the build context is made")
    parser.add_argument(
        "--file", type=Path, action="append", default=[], help="a module, package or file beside it"
    )
    parser.add_argument("--requirements", type=Path, help="packages that the job needs")
    parser.add_argument("--wheels", type=Path, help="where they come from: a directory of wheels, no index")
    parser.add_argument("--base", default=BASE, help=f"the image that it is built on (default {BASE})")
    parser.add_argument(
        "--option", action="append", default=[], metavar="WORD", help="for firesteel run, as in --option=-p4"
    )
    parser.add_argument("--tag", help="build the image, too, under this name")
    given = parser.parse_args(arguments)
    try:
        make_context(
            given.program,
            given.output,
            files=given.file,
            requirements=given.requirements,
            wheels=given.wheels,
            options=given.option,
            base=given.base,
        )
    except ContextError as error:
        print(f"job_image: {error}", file=sys.stderr)
        return 2
    print(f"{given.output} has the build context")
    if given.tag is None:
        print(f"build the image with: docker build -t NAME {given.output}")
        return 0
    return subprocess.run(["docker", "build", "-t", given.tag, str(given.output)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
