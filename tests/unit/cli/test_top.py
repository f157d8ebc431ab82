"""``firesteel top``: figures, lines and keys by themselves, then all of it at a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from firesteel import launch
from firesteel.cli.live_view.figures import job_figures, vertex_figures
from firesteel.cli.live_view.keys import View, pressed, split_keys
from firesteel.cli.live_view.lines import Line, Picture, listed_ids, picture_lines
from firesteel.cli.live_view.samples import JobSample, OperatorSample, VertexSample
from firesteel.cli.live_view.screen import drawn
from firesteel.cli.main import main
from firesteel.common import Configuration, WatermarkStrategy
from firesteel.common.time import MAX_WATERMARK
from firesteel.datastream.functions import DiscardingSink
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.testing import Emit, ScriptedSource, WaitForever, simulated_environment
from firesteel_support.scripted_server import ScriptedServer

SECONDS = 1000
SOURCE = VertexSample(
    "a" * 32,
    "Source: Orders",
    2,
    "RUNNING",
    (OperatorSample("Source: Orders", 0, 5000, 0, 40.0),),
    is_source=True,
    busy=0.5,
    back_pressured=0.25,
    busy_ms=6000,
    back_pressured_ms=4000,
)
SINK = VertexSample(
    "b" * 32,
    "Map -> Sink: Alarms",
    1,
    "RUNNING",
    (OperatorSample("Map", 4000, 3000, 30.0, 20.0), OperatorSample("Sink: Alarms", 3000, 0, 20.0, 0)),
    is_sink=True,
    watermark=97 * SECONDS,
)
JOB = JobSample(
    "0f" * 16,
    "orders",
    "RUNNING",
    1,
    now=100 * SECONDS,
    duration=75 * SECONDS,
    vertices=(SOURCE, SINK),
    tasks_running=3,
    metrics={
        "numRestarts": 2,
        "numberOfCompletedCheckpoints": 19,
        "numberOfFailedCheckpoints": 1,
        "lastCheckpointDuration": 420,
        "lastCheckpointSize": 2_300_000,
    },
)
OTHER = JobSample("1e" * 16, "billing", "RESTARTING", 2)


def texts(picture: Picture, view: View | None = None, width: int = 160, height: int = 40) -> list[str]:
    return [line.text.rstrip() for line in picture_lines(picture, view or View(), width, height)]


# Figures.


def test_one_sample_has_the_rates_of_the_last_minute() -> None:
    figures = job_figures(None, JOB)
    assert (figures.rate_in, figures.rate_out) == (40.0, 20.0)
    assert (figures.busy, figures.back_pressured, figures.lag_ms) == (0.5, 0.25, 3 * SECONDS)


def test_two_samples_have_the_rates_between_them() -> None:
    source = replace(
        SOURCE,
        operators=(OperatorSample("Source: Orders", 0, 6000, 0, 40.0),),
        busy_ms=22_000,
        back_pressured_ms=4000,
    )
    later = replace(JOB, now=110 * SECONDS, vertices=(source, SINK))
    figures = job_figures(JOB, later)
    assert figures.rate_in == 100.0
    assert figures.rate_out == 0.0
    assert figures.busy == 0.8, "of two subtasks"
    assert figures.back_pressured == 0.0


def test_counters_that_begin_anew_are_no_rate() -> None:
    source = replace(SOURCE, operators=(OperatorSample("Source: Orders", 0, 10, 0, 1.0),), busy_ms=5)
    later = replace(JOB, now=110 * SECONDS, vertices=(source, SINK))
    assert vertex_figures(JOB, later, source).rate_out == 1.0
    assert vertex_figures(JOB, later, source).busy == 0.5


def test_the_end_of_event_time_is_no_lag() -> None:
    ended = replace(SINK, watermark=MAX_WATERMARK)
    assert job_figures(None, replace(JOB, vertices=(ended,))).lag_ms == float("-inf")
    both = replace(JOB, vertices=(ended, SINK))
    assert job_figures(None, both).lag_ms == 3 * SECONDS


# Lines.


def test_all_jobs() -> None:
    head, columns, first, second = texts(Picture([JOB, OTHER], moment=0, where="http://h:1"))
    assert re.fullmatch(
        r"firesteel top, \d\d:\d\d:\d\d: 2 jobs at http://h:1    enter: job, \?: keys, q: leave", head
    )
    assert columns.split() == (
        [
            "JOB",
            "STATE",
            "FOR",
            "TASKS",
            "IN/S",
            "OUT/S",
            "BUSY",
            "BACKPR",
            "LAG",
            "RESTARTS",
            "CHECKPOINTS",
            "LAST",
            "ONE",
        ]
    )
    assert re.split(r"  +", first) == [
        "0f0f0f0f orders",
        "RUNNING",
        "1 min 15 s",
        "3/3",
        "40",
        "20",
        "50 %",
        "25 %",
        "3.0 s",
        "2",
        "19 -1",
        "0.4 s 2.3 MB",
    ]
    assert re.split(r"  +", second)[:4] == ["1e1e1e1e billing", "RESTARTING", "-", "-"]


def test_one_job_operator_by_operator() -> None:
    _, name, state, columns, *rows = texts(Picture([JOB]), View(opened=JOB.job_id))
    assert name == f"orders ({JOB.job_id})"
    assert state == (
        "RUNNING for 1 min 15 s, 2 restarts, 19 checkpoints complete, 1 failed, the last one 0.4 s 2.3 MB"
    )
    assert columns.split() == [
        "OPERATOR",
        "PAR",
        "STATE",
        "IN/S",
        "OUT/S",
        "BUSY",
        "BACKPR",
        "LAG",
        "IN",
        "OUT",
    ]
    assert [re.split(r" {2,}", row.strip()) for row in rows] == [
        ["Source: Orders", "2", "RUNNING", "0", "40", "50 %", "25 %", "-", "0", "5.0 k"],
        ["Map", "1", "RUNNING", "30", "20", "-", "-", "3.0 s", "4.0 k", "3.0 k"],
        ["Sink: Alarms", "20", "0", "3.0 k", "0"],
    ]


def test_a_job_that_is_gone_says_where_to_look() -> None:
    _, line = texts(Picture([JOB]), View(opened="77" * 16))
    assert line == f"job {'77' * 16} does not run any more; 'firesteel list -a' says how it ended"


def test_a_problem_stands_below_its_job() -> None:
    job = replace(OTHER, problem="it has no REST interface")
    lines = picture_lines(Picture([JOB, job]), View(), 160, 40)
    assert lines[-1] == Line("  it has no REST interface", "alarm")


def test_no_jobs() -> None:
    assert texts(Picture([]))[1:] == ["no job is running"]
    assert texts(Picture([], problem="nothing listens at x"))[1:] == [
        "nothing listens at x",
        "no job is running",
    ]


@pytest.mark.parametrize("width", [1, 20, 80, 500])
@pytest.mark.parametrize("height", [1, 3, 24])
@pytest.mark.parametrize("view", [View(), View(opened=JOB.job_id), View(with_help=True)])
def test_everything_fits_the_terminal_and_no_name_controls_it(width: int, height: int, view: View) -> None:
    evil = replace(JOB, name="\x1b[2Jboom\n", state="\x07", problem="\x1b]0;title\x07")
    lines = picture_lines(Picture([evil] * 30), view, width, height)
    assert len(lines) <= height
    assert all(len(line.text) <= max(1, width - 1) and line.text.isprintable() for line in lines)


def test_a_narrow_terminal_sees_what_matters_most() -> None:
    columns = texts(Picture([JOB]), width=80)[1]
    assert columns.split() == ["JOB", "STATE", "IN/S", "OUT/S", "BUSY", "BACKPR", "LAG"]
    columns = texts(Picture([JOB]), View(opened=JOB.job_id), width=80)[3]
    assert columns.split() == ["OPERATOR", "IN/S", "OUT/S", "BUSY", "BACKPR", "LAG", "IN"]


def test_the_job_that_is_chosen_is_among_those_that_fit() -> None:
    jobs = [replace(JOB, job_id=f"{number:032x}") for number in range(100)]
    for number in (0, 50, 99):
        lines = picture_lines(Picture(jobs), View(chosen=jobs[number].job_id), 160, 10)
        assert len(lines) == 10
        assert [line.text[:8] for line in lines if line.look == "chosen"] == [jobs[number].job_id[:8]]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [("", "0 1"), ("n", "1 0"), ("nn", "0 1"), ("t", "0 1"), ("tt", "1 0"), ("i", "0 1"), ("ii", "0 1")],
)
def test_jobs_are_sorted_and_those_without_figures_come_last(keys: str, expected: str) -> None:
    view = View()
    for key in keys:
        view = pressed(view, key, [])
    assert [job_id[0] for job_id in listed_ids(Picture([JOB, OTHER]), view)] == expected.split()


def test_operators_are_sorted() -> None:
    view = View(opened=JOB.job_id, sort="rate_in", descending=True)
    rows = texts(Picture([JOB]), view)[4:]
    assert [row.split()[0] for row in rows] == ["Map", "Sink:", "Source:"]


# Keys.


def test_a_job_is_chosen_opened_and_left() -> None:
    ids = ["a", "b", "c"]
    view = View()
    for key, chosen in (("j", "b"), ("\x1b[B", "c"), ("j", "c"), ("k", "b"), ("g", "a"), ("G", "c")):
        view = pressed(view, key, ids)
        assert view.chosen == chosen
    view = pressed(view, "\r", ids)
    assert view.opened == "c"
    view = pressed(pressed(view, "j", ids), "\x1b[A", ids)
    assert (view.chosen, view.opened, view.scroll) == ("c", "c", 0)
    assert pressed(view, "\x1b", ids).opened == ""
    assert pressed(view, "q", ids).is_over


def test_the_first_job_is_chosen_when_the_one_before_has_ended() -> None:
    assert pressed(View(chosen="gone"), "\r", ["a", "b"]).opened == "a"
    assert pressed(View(), "\r", []) == View()


def test_any_key_leaves_the_help() -> None:
    view = pressed(View(), "?", [])
    assert view.with_help
    assert pressed(view, "x", []) == View()
    assert pressed(view, "q", []).is_over


def test_keys_come_several_at_a_time() -> None:
    assert split_keys("\x1b[A\x1bOBjq\x1b") == ["\x1b[A", "\x1bOB", "j", "q", "\x1b"]
    assert split_keys("\x1b[") == ["\x1b["]


def test_a_screen_is_drawn_over_the_one_before() -> None:
    text = drawn([Line("a", "head"), Line("b", "chosen"), Line("c")], 4)
    assert text == "\x1b[H\x1b[1ma\x1b[0m\x1b[K\r\n\x1b[7mb  \x1b[0m\x1b[K\r\nc\x1b[K\x1b[J"
    assert "\x1b[2J" not in text, "nothing is blank in between"


# At a terminal, with jobs of the simulator.


class Terminal:
    """A command at a terminal of its own; what it writes is kept."""

    def __init__(self, *arguments: str) -> None:
        self._end, other = pty.openpty()
        termios.tcsetwinsize(other, (24, 160))
        self.before = termios.tcgetattr(other)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "firesteel.cli.main", *arguments],
            stdin=other,
            stdout=other,
            stderr=other,
            env={**_without_size(os.environ), "TERM": "xterm"},
        )
        self._other = other
        self.text = ""

    def read_until(self, expected: str) -> None:
        """Read what it writes until something is there."""
        deadline = time.monotonic() + 300
        while expected not in self.text:
            assert time.monotonic() < deadline, self.text
            assert self.process.poll() is None or select.select([self._end], [], [], 0)[0], self.text
            if select.select([self._end], [], [], 0.2)[0]:
                self.text += os.read(self._end, 65536).decode()

    def press(self, keys: str) -> None:
        self.text = ""
        os.write(self._end, keys.encode())

    def resize(self, lines: int, columns: int) -> None:
        self.text = ""
        termios.tcsetwinsize(self._other, (lines, columns))
        self.process.send_signal(signal.SIGWINCH)  # the terminal is not the one that controls this process

    def leave(self, code: int = 0) -> None:
        """Wait for the end; the terminal must be as it was."""
        self.read_until("\x1b[?1049l")
        assert self.process.wait(300) == code
        assert termios.tcgetattr(self._other) == self.before

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._end)
        os.close(self._other)


def _without_size(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables that say how large a terminal is win over the terminal, and xdist sets them."""
    return {name: value for name, value in variables.items() if name not in ("COLUMNS", "LINES")}


@contextmanager
def at_terminal(*arguments: str) -> Iterator[Terminal]:
    terminal = Terminal(*arguments)
    try:
        yield terminal
    finally:
        terminal.close()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[MasterJobClient]:
    """A job of the simulator that waits for ever, and can be found."""
    with launch.register_jobs():
        env = simulated_environment(parallelism=2, configuration=Configuration.from_dict({"rest.port": "0"}))
        script = ScriptedSource([Emit([1, 2, 3]), WaitForever()])
        numbers = env.from_source(script, WatermarkStrategy.no_watermarks(), "Numbers")
        numbers.key_by(lambda n: n % 2).map(lambda n: -n).name("Minus").add_sink(DiscardingSink())
        client = env.execute_async("watched")
        assert isinstance(client, MasterJobClient)
        until(lambda: [client.get_job_status().result().name], "RUNNING")
        yield client
        client.cancel().result()


def once(*arguments: str) -> list[str]:
    result = CliRunner().invoke(main, ["top", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def until(look: Callable[[], list[str]], expected: str) -> list[str]:
    while expected not in "\n".join(seen := look()):
        pass
    return seen


def test_once_prints_plain_text(job: MasterJobClient) -> None:
    columns, line = until(once, " 3/4 ")  # one subtask of the source had nothing to read, and has finished
    assert columns.startswith("JOB ")
    assert line.startswith(f"{job.get_job_id()} watched ")
    assert once("--once", "-m", job.rest_url)[1].startswith(f"{job.get_job_id()} watched ")


def test_once_prints_one_job(job: MasterJobClient) -> None:
    prefix = str(job.get_job_id())[:8]
    lines = until(lambda: once(prefix), "Minus ")
    assert lines[0] == f"watched ({job.get_job_id()})"
    assert lines[1].startswith("RUNNING for ")
    expected = {"Source: Numbers": ["0", "3"], "Minus": ["3", "3"], "": ["3", "0"]}

    def records() -> dict[str, list[str]]:
        return {line.split("  ")[0]: line.split()[-2:] for line in once(prefix)[3:]}

    while records() != expected:  # tasks report by themselves, one after the other
        pass


def test_who_does_not_answer_is_an_error_once() -> None:
    with ScriptedServer((200, {})) as server:
        url = server.url
    result = CliRunner().invoke(main, ["top", "-m", url])
    assert (result.exit_code, f"nothing listens at {url}" in result.stderr) == (1, True)


def test_a_service_that_says_something_else_is_a_problem_of_its_jobs() -> None:
    line = {"jid": "ab" * 16, "name": "n", "state": "RUNNING", "start-time": 1, "end-time": -1, "duration": 1}
    with ScriptedServer((200, {"jobs": [line]}), (200, {"name": "n"})) as server:
        lines = once("-m", server.url)
    assert lines[1].split()[:3] == ["ab" * 16, "n", "RUNNING"]
    assert lines[2] == f"  what {server.url} says of it cannot be read: KeyError('plan')"


def test_a_live_view_is_steered_by_keys_and_leaves_the_terminal_as_it_was(job: MasterJobClient) -> None:
    prefix = str(job.get_job_id())[:8]
    with at_terminal("top", "-i", "0.1") as terminal:
        terminal.read_until(f"\x1b[7m{prefix} watched ")
        terminal.press("\r")
        terminal.read_until(f"watched ({job.get_job_id()})")
        terminal.read_until("Minus ")
        terminal.press("?")
        terminal.read_until("back to all jobs")
        terminal.press("x\x1b")
        terminal.read_until(f"\x1b[7m{prefix} watched ")
        terminal.resize(24, 30)
        terminal.read_until("firesteel top, ")
        terminal.read_until("…")
        terminal.press("q")
        terminal.leave()


def test_a_live_view_ends_by_ctrl_c(job: MasterJobClient) -> None:
    with at_terminal("top", str(job.get_job_id())) as terminal:
        terminal.read_until("Minus ")
        terminal.process.send_signal(signal.SIGINT)
        terminal.leave()


def test_who_is_told_to_end_gives_the_terminal_back(job: MasterJobClient) -> None:
    with at_terminal("top") as terminal:
        terminal.read_until(" watched ")
        terminal.process.terminate()
        terminal.leave(128 + signal.SIGTERM)


def test_who_is_stopped_gives_the_terminal_back_and_goes_on_later(job: MasterJobClient) -> None:
    with at_terminal("top") as terminal:
        terminal.read_until(" watched ")
        terminal.text = ""
        terminal.process.send_signal(signal.SIGTSTP)
        terminal.read_until("\x1b[?1049l")
        terminal.text = ""
        _, status = os.waitpid(terminal.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        terminal.process.send_signal(signal.SIGCONT)
        terminal.read_until("\x1b[?1049h")
        terminal.read_until(" watched ")
        terminal.press("q")
        terminal.leave()
