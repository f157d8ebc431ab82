"""The dataflow of a program that is not run: the program runs in a process of its own, up to its first job."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firesteel.rest.errors import Malformed
from firesteel.service.artifacts import Artifact
from firesteel.service.drivers import DRIVER_MODULE
from firesteel.service.folder import JobFolder, read_json
from firesteel.service.programs import submission_of

__all__ = ["PLAN_FILE", "PlanMaker"]

PLAN_FILE = "plan.json"
_SECONDS = 60.0
_SHOWN_LINES = 20


class PlanMaker:
    """Makes plans in a folder for temporary ones."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def plan(self, artifact: Artifact, request: Mapping[str, Any]) -> Any:
        """The plan, or a refusal with what the program says."""
        with tempfile.TemporaryDirectory(prefix="plan-", dir=self._folder) as directory:
            folder = JobFolder(Path(directory))
            folder.files.mkdir(mode=0o700)
            shutil.copyfile(artifact.path, folder.files / artifact.name)
            folder.submit(submission_of(artifact, request, "0" * 32))
            output = self._run(folder)
            plan = read_json(folder.path / PLAN_FILE)
        if plan is None:
            raise Malformed(f"{artifact.name} has no plan to show:", *output.splitlines()[-_SHOWN_LINES:])
        return plan

    def _run(self, folder: JobFolder) -> str:
        try:
            done = subprocess.run(
                [sys.executable, "-m", DRIVER_MODULE, "--plan", str(folder.path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Malformed(f"the program has not come to its first job in {_SECONDS:g} s") from None
        return done.stdout
