"""The file sink on a real file system whose disk is copied at the moment that counts: what a power loss would leave."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firesteel.common.serialization import Encoder
from firesteel.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from firesteel.plan.operator_specs import WriterSinkSpec
from firesteel.plan.shipped import Shipped
from firesteel.testing.checkpoint_harness import CheckpointHarness


class Disk:
    """A small ext4 in a file, mounted; what is in the file has reached the disk."""

    def __init__(self, directory: Path) -> None:
        self._image = directory / "disk"
        self.path = directory / "mounted"
        self.path.mkdir()
        with self._image.open("wb") as file:
            file.truncate(16 << 20)
        self._run("mkfs.ext4", "-q", str(self._image))
        self.mount()

    def mount(self) -> None:
        self._run("mount", "-o", "loop", str(self._image), str(self.path))

    def unmount(self) -> None:
        self._run("umount", str(self.path))

    def lose_power(self) -> None:
        """Go on with what the disk holds now; the journal is replayed."""
        copy = self._image.with_name("copy")
        shutil.copyfile(self._image, copy)
        self.unmount()
        copy.rename(self._image)
        self.mount()

    def _run(self, *command: str) -> None:
        subprocess.run(command, check=True, capture_output=True, text=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    try:
        disk = Disk(tmp_path)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or error
        pytest.skip(f"a file system cannot be made and mounted here: {str(reason).strip()}")
    try:
        yield disk
    finally:
        disk.unmount()


def run(base: Path, policy: RollingPolicy, restore: Any = None) -> CheckpointHarness:
    builder = FileSink.for_row_format(str(base), Encoder.simple_string_encoder()).with_rolling_policy(policy)
    sink = builder.with_bucket_assigner(BucketAssigner.date_time_bucket_assigner("yyyy/MM/dd")).build()
    return CheckpointHarness(WriterSinkSpec(Shipped.of(sink, "sink_to"), None), restore=restore)


def lines(base: Path) -> list[str]:
    return sorted(line for path in base.rglob("part-*") for line in path.read_text().splitlines())


@pytest.mark.parametrize(
    "policy",
    [RollingPolicy.default_rolling_policy(), RollingPolicy.on_checkpoint_rolling_policy()],
    ids=["in progress", "closed"],
)
def test_what_a_checkpoint_has_survives_a_power_loss(disk: Disk, policy: RollingPolicy) -> None:
    out = disk.path / "new" / "out"
    before = run(out, policy)
    before[0].process(["a", "b"])
    checkpoint = before.checkpoint(1)
    before.close()
    disk.lose_power()
    after = run(out, policy, checkpoint)
    after[0].process(["c"])
    after.finish()
    checkpoint = after.checkpoint(2)
    after.close()
    disk.lose_power()
    run(out, policy, checkpoint).close()
    assert lines(out) == ["a", "b", "c"]
    disk.lose_power()  # what was committed is committed
    assert lines(out) == ["a", "b", "c"]
