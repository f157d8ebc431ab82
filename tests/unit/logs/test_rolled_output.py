"""A file that several processes print to: rolled over under their hands, and read as if it never were."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from firesteel.logs.outputs import rolled_files
from firesteel.logs.rolled_output import RolledOutput, forget_rolling, read_as_one


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "driver.log"


def write(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def texts(path: Path) -> list[str]:
    return [file.read_text(encoding="utf-8") for file in rolled_files(path)]


def test_who_has_the_file_open_goes_on_at_its_beginning(path: Path) -> None:
    output = RolledOutput(path, 10, 2)
    with path.open("a", encoding="utf-8") as first, path.open("a", encoding="utf-8") as second:
        for name in ("one", "two", "three", "four"):
            for file in (first, second):
                print(f"{name} 12345", file=file, flush=True)
            assert output.roll_if_full()
        assert not output.roll_if_full(), "it is empty"
        print("five", file=first, flush=True)
    assert texts(path) == ["five\n", "four 12345\n" * 2, "three 12345\n" * 2], "the oldest ones are gone"
    assert stat.S_IMODE(rolled_files(path)[1].stat().st_mode) == 0o600


def test_a_file_that_is_not_full_stays(path: Path) -> None:
    write(path, "123456789")
    assert not RolledOutput(path, 10, 2).roll_if_full()
    assert texts(path) == ["123456789"]


def test_it_is_read_as_if_it_had_never_been_rolled_over(path: Path) -> None:
    output, whole, shown = RolledOutput(path, 10, 3), "", b""
    write(path, "")
    for number in range(200):
        write(path, f"line {number}\n")
        whole += f"line {number}\n"
        if number % 7 == 0:
            output.roll_if_full()
        if number % 5 == 0:
            while part := read_as_one(path, len(shown), 8):
                shown += part
            assert shown.decode() == whole
    kept = "".join(reversed(texts(path)))
    assert read_as_one(path, 0, 1000).decode() == texts(path)[-1], "the oldest that there is"
    assert whole.endswith(kept)


def test_the_file_of_the_next_driver_is_read_from_its_own_beginning(path: Path) -> None:
    write(path, "of the first one\n")
    assert RolledOutput(path, 10, 3).roll_if_full()
    path.rename(path.with_name("driver.1.log"))
    forget_rolling(path)
    write(path, "hello")
    assert read_as_one(path, 0, 100) == b"hello"


def test_the_output_of_a_process_and_of_those_that_it_starts_is_bounded(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import subprocess, sys, time
        from pathlib import Path
        from firesteel.logs import rolled_output
        from firesteel.logs.rolled_output import RolledOutput

        rolled_output._LOOK_SECONDS = 0.01
        path = Path(sys.argv[1])
        output = RolledOutput(path, 1000, 2)
        assert output.is_printed_to
        assert not RolledOutput(path.with_name("other.log"), 1000, 2).is_printed_to
        output.watch()
        child = "import time\\nfor n in range(40): print('child', n, 'x' * 100, flush=True); time.sleep(0.005)"
        subprocess.run([sys.executable, "-c", child], check=True)
        while path.stat().st_size >= 1000:
            time.sleep(0.01)
        print("the end", flush=True)
    """)
    path = tmp_path / "out.log"
    with path.open("ab") as log:
        subprocess.run(
            [sys.executable, "-c", program, str(path)],
            stdout=log,
            stderr=subprocess.STDOUT,
            check=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    files = rolled_files(path)
    assert len(files) == 3, path.read_text()
    assert path.read_text().endswith("the end\n")
    lines = "".join(file.read_text() for file in reversed(files)).splitlines()[:-1]
    numbers = [int(line.split()[1]) for line in lines[1:]]
    # What somebody else prints between the last look and the cut is lost, and a busy machine makes that longer than usual.
    assert numbers == sorted(set(numbers)), "no line is there twice"
    assert set(numbers) <= set(range(40))
    assert all(line == f"child {number} {'x' * 100}" for number, line in zip(numbers, lines[1:], strict=True))
