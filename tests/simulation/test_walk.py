"""A record and a checkpoint do not pass more files than a reader can hold in mind. `scripts/walk` prints the way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for walk

import walk


def test_a_record_passes_few_files() -> None:
    way = walk.walk_of_a_record()

    assert way.files[0] == "runtime/stage_task.py"
    assert way.files[-1] == "connectors/files/part_file.py"
    assert {"connectors/collection.py", "runtime/router.py", "runtime/wire_format.py"} < set(way.files)
    assert len(way.files) <= 18, way
    assert len(way.through) <= 13, way


def test_a_checkpoint_passes_few_files() -> None:
    way = walk.walk_of_a_checkpoint()

    assert way.files[0] == "jobmaster/job_master.py"
    assert way.passes("CheckpointCoordinator._begin")
    assert way.passes("SnapshotFile.finish")
    assert way.passes("JobCheckpoints.publish")
    assert way.calls[-1].file == "connectors/files/part_file.py"
    assert len(way.through) <= 20, way
    assert len(way.files) <= 33, way


def test_the_script_prints_figures_and_one_line_for_every_stay_in_a_file() -> None:
    script = Path(walk.__file__)
    done = subprocess.run([sys.executable, script, "record"], capture_output=True, text=True, check=True)

    figures, _, first, *_, last, _, _ = done.stdout.split("\n")
    assert figures.startswith("a record passes ")
    assert first.split()[:3] == ["task", "runtime/stage_task.py", "StageTask.poll,"]
    assert last.split() == ["task", "connectors/files/part_file.py", "PartStream.write"]
