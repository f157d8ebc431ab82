"""When a service is stopped: whose job is over ends by itself and says how; the others are ended, and counted."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from firesteel.service import cluster_service
from firesteel.service.cluster_service import end_all_drivers
from firesteel.service.folder import ServiceFolder
from firesteel.service.processes import mark_of
from firesteel.service.records import DriverReport, JobReport, SubmittedProgram


@pytest.mark.parametrize(
    ("status", "ended", "exit_code"), [("CANCELED", 0, 7), ("RUNNING", 1, -9), ("", 1, -9)]
)
def test_only_drivers_with_jobs_to_resume_are_ended_by_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, ended: int, exit_code: int
) -> None:
    monkeypatch.setattr(cluster_service, "_MOMENT_SECONDS", 600.0)
    folder = ServiceFolder(tmp_path / "cluster")
    folder.prepare()
    # In place of a driver: about to end when its job is over, and at work for long otherwise.
    seconds = 0.3 if status == "CANCELED" else 600
    driver = subprocess.Popen(
        [sys.executable, "-c", f"import time; time.sleep({seconds}); raise SystemExit(7)"]
    )
    job_id = "ab" * 16
    with folder.new_job(job_id) as job:
        job.submit(SubmittedProgram(job_id, 1, "job", "job.py", None, (), {}))
    job.write_report(DriverReport(mark_of(driver.pid), "", (JobReport(job_id, "job", 1, 1, status=status),)))
    threading.Thread(target=driver.wait, daemon=True).start()  # what has ended is to be gone
    assert end_all_drivers(folder) == ended
    assert driver.wait() == exit_code
