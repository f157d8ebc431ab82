"""What tasks print: whole lines, everything for a slow reader, and no stop when nobody reads."""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from firesteel.jobmaster.terminal.console import Console
from firesteel.jobmaster.terminal.patient_writer import PatientWriter

MUCH = "x" * 200_000 + "\n"  # more than a pipe holds


@contextmanager
def output_to_a_pipe() -> Iterator[int]:
    """Standard output is a pipe; gives the end to read from. Not a fixture: pytest sets the stream for each test."""
    read, write = os.pipe()
    before = sys.stdout
    with open(write, "w", encoding="utf-8") as stream:
        sys.stdout = stream
        try:
            yield read
        finally:
            sys.stdout = before
            drain = threading.Thread(target=read_all, args=(read,), daemon=True)
            drain.start()
    drain.join(300)
    os.close(read)


def read_all(end: int) -> bytes:
    found = b""
    while piece := os.read(end, 1 << 16):
        found += piece
    return found


def read_until(end: int, mark: bytes) -> bytes:
    found = b""
    while mark not in found:
        found += os.read(end, 1 << 16)
    return found


def test_a_pipe_that_nobody_reads_stops_nobody_and_what_is_missing_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with output_to_a_pipe() as pipe:
        console = Console(stall_seconds=0.05)
        console.write(MUCH)  # returns although it cannot be written
        for _ in range(1000):
            console.write("lost\n")
        assert "standard output has accepted nothing for 0 s, nobody seems to read it" in caplog.text
        assert read_until(pipe, b"x\n").count(b"x") == 200_000
        console.write("again\n")  # the stream moves, as soon as its thread has noticed
        while b"again" not in (found := read_until(pipe, b"\n")):
            console.write("again\n")
        assert b"lost" not in found


def test_the_number_of_what_is_missing_is_exact() -> None:
    entered, leave, told = threading.Event(), threading.Event(), []
    writer = PatientWriter("the pipe", 0.01, lambda text: None, told.append)

    def block(moved: object) -> None:
        entered.set()
        leave.wait(300)

    writer.write(block, 7)
    entered.wait(300)
    for _ in range(5):
        writer.write(lambda moved: told.append("written"), 10)
    leave.set()
    while "written" not in told:
        writer.write(lambda moved: told.append("written"), 0)
    assert told[0].startswith("firesteel: 50 characters in ")
    assert told[1] == "written"


def test_a_slow_reader_gets_everything() -> None:
    with output_to_a_pipe() as pipe:
        console = Console(stall_seconds=60)
        found: list[bytes] = []

        def read_slowly() -> None:
            left = 3 * len(MUCH)
            while left:
                found.append(os.read(pipe, 1000))
                left -= len(found[-1])

        reader = threading.Thread(target=read_slowly)
        reader.start()
        for _ in range(3):
            console.write(MUCH)
        reader.join(300)
        assert b"".join(found).decode() == MUCH * 3


def test_standard_error_works_while_standard_output_is_stuck(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with output_to_a_pipe() as pipe:
        console = Console(stall_seconds=300)
        stuck = threading.Thread(target=console.write, args=(MUCH,), daemon=True)
        stuck.start()
        console.write("aside\n", "stderr")
        with caplog.at_level(logging.INFO):
            console.log(logging.LogRecord("user", logging.INFO, "file", 1, "noted", (), None).__dict__)
        assert "noted" in caplog.text
        read_until(pipe, b"x\n")
        stuck.join(300)


def test_a_writing_that_fails_is_raised_for_whoever_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    with pytest.raises(ValueError, match="closed"):
        Console().write("x\n")


def test_a_line_that_one_task_leaves_unfinished_is_ended_before_another_one_writes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console = Console()
    console.write("one, ", origin=1)
    console.write("two\n", origin=1)
    console.write("three, ", origin=1)
    console.write("other\n", origin=2)
    console.write("four\n", origin=1)
    assert capsys.readouterr().out == "one, two\nthree, \nother\nfour\n"
