"""The demonstration: its job gives the right statistics, and its view shows them with and without a terminal."""

from __future__ import annotations

import re
import sys
import time
from collections import deque

import pytest

from firesteel.testing import CollectSink


@pytest.fixture
def demo(example):
    return example("demo")


def test_statistics_of_each_sensor(demo, env):
    sink = CollectSink()
    demo.build(env, sink, rate=1000, count=300, sensors=3)
    env.execute()
    assert len(sink.values) == 300
    for sensor in ("sensor-01", "sensor-02", "sensor-03"):
        mine = [update for update in sink.values if update[0] == sensor]
        temperatures = []
        for count, (_, now, low, mean, high, number, _) in enumerate(
            sorted(mine, key=lambda update: update[5]), 1
        ):
            temperatures.append(now)
            assert (low, high, number) == (min(temperatures), max(temperatures), count)
            assert mean == pytest.approx(sum(temperatures) / count)


def updates(demo, count):
    return [(f"sensor-{i % 2 + 1:02}", 20.0 + i, 20.0, 25.0, 80.0, i, time.time()) for i in range(count)]


@pytest.mark.parametrize("live", [True, False])
def test_view_ends_with_a_summary(demo, capsys, monkeypatch, live):
    monkeypatch.setattr(demo, "FRAME_SECONDS", 0.0)
    monkeypatch.setattr(demo, "LINE_SECONDS", 0.0)
    view = demo.Dashboard("a title", 30, live=live, columns=80, rows=24)
    view.open(None)
    for update in updates(demo, 60):
        view.invoke(update, None)
    view.close()
    text = capsys.readouterr().out
    assert ("\x1b[" in text) is live
    assert ("a title" in text) is live
    assert "readings/s" in text
    assert "60 readings of 2 sensors" in text
    assert "2 alarms above 75 °C" in text


@pytest.mark.parametrize(("columns", "rows"), [(70, 24), (40, 24), (70, 10)])
def test_frame_stays_within_the_terminal(demo, monkeypatch, columns, rows):
    monkeypatch.setattr(demo, "FRAME_SECONDS", 1e9)
    view = demo.Dashboard("t" * 200, 30, live=True, columns=columns, rows=rows)
    view.open(None)
    for index in range(40):
        view.invoke((f"sensor-{index % 20:02}", 20.0 + 2 * index, 20.0, 25.0, 99.0, index, 0.0), None)
    for _ in range(50):
        view._measure(time.time() + 1)
    lines = [re.sub(r"\x1b\[[\d;]*\w", "", line) for line in view._frame(time.time())]
    assert max(map(len, lines)) <= columns
    assert len(lines) < rows
    assert any(line.endswith("more sensors"[: columns - 4]) for line in lines)


def test_percentiles(demo):
    assert demo.percentiles([]) == "p50 -  p99 -"
    assert demo.percentiles([n / 1000 for n in range(1, 101)]) == "p50 51.0 ms  p99 100.0 ms"


def test_sparkline(demo):
    assert demo.sparkline(deque([0.0, 4.0, 8.0]), 0.0, 8.0) == "▁▅█"
    assert demo.sparkline(deque([3.0]), 3.0, 3.0) == "▁"


def test_options_must_make_sense(demo, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["demo.py", "--rate", "0"])
    with pytest.raises(SystemExit):
        demo.parse_options()
    assert "0 is not above 0" in capsys.readouterr().err


@pytest.mark.usefixtures("simulator")
def test_the_whole_program(demo, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["demo.py", "--seconds", "2", "--rate", "100", "--sensors", "3"])
    demo.main()
    text = capsys.readouterr().out
    assert text.startswith("starting Spark")
    assert "200 readings of 3 sensors" in text
    assert text.index("what to look at next") > text.index("200 readings")
