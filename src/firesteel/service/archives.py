"""Jobs that have ended, read from an archive: the answers that their drivers have written down."""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from firesteel.checkpoint.storage import Storage, open_storage, shown
from firesteel.common.errors import FileMissingError, FiresteelError, IncompatibleStateError
from firesteel.rest.archive import FORMAT, write_archive
from firesteel.rest.views.metrics import aggregated_metrics, metrics

__all__ = ["ArchivedJob", "ArchivedJobs"]

_LOG = logging.getLogger(__name__)

#: Whole archives that are kept in memory; of all others only the line of the overview is.
_KEPT = 20


class ArchivedJob:
    """What is left of one job."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        #: Its line of the overview.
        self.line: dict[str, Any] = content["overview"]
        self.id: str = content["jid"]
        self._answers: Mapping[str, Any] = content["answers"]
        self._metrics: Mapping[str, Any] = content.get("metrics", {})

    def answer(self, path: str, query: Mapping[str, Any]) -> Any:
        """What is answered at a path; None when that is not in the archive."""
        answer = self._answers.get(path)
        if answer is not None:
            return answer
        parts = path.removeprefix(f"/jobs/{self.id}/").split("/")
        wanted = query.get("get")
        if parts == ["metrics"]:
            return metrics(self._metrics.get("job", {}), wanted)
        if parts[-1] not in ("metrics", "jm-operator-metrics") or parts[0] != "vertices":
            return None
        subtasks: Sequence[Mapping[str, Any]] | None = self._metrics.get("vertices", {}).get(parts[1])
        return None if subtasks is None else _vertex_metrics(parts[2:], subtasks, query)


def _vertex_metrics(
    parts: Sequence[str], subtasks: Sequence[Mapping[str, Any]], query: Mapping[str, Any]
) -> Any:
    wanted = query.get("get")
    match list(parts):
        case ["metrics"]:
            known = {f"{index}.{name}": each[name] for index, each in enumerate(subtasks) for name in each}
            return metrics(known, wanted)
        case ["jm-operator-metrics"]:
            return metrics({}, wanted)
        case ["subtasks", "metrics"]:
            return aggregated_metrics(subtasks, wanted, query.get("agg", ()))
        case ["subtasks", index, "metrics"] if index.isdecimal() and int(index) < len(subtasks):
            return metrics(subtasks[int(index)], wanted)
        case _:
            return None


class ArchivedJobs:
    """Those in a directory, local or not; may be used from any thread."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._storage: Storage = open_storage(directory)
        self._lock = threading.Lock()
        self._lines: dict[str, dict[str, Any]] = {}
        self._unreadable: set[str] = set()
        self._recent: OrderedDict[str, ArchivedJob] = OrderedDict()

    def refresh(self) -> None:
        """Look for jobs that have come, and for those that are gone."""
        try:
            names = {name.removesuffix(".json") for name in self._storage.list() if name.endswith(".json")}
        except FileMissingError:
            names = set()
        with self._lock:
            new = names - self._lines.keys() - self._unreadable
            for job_id in self._lines.keys() - names:
                del self._lines[job_id]
                self._recent.pop(job_id, None)
        for job_id in sorted(new):
            self.find(job_id)

    def lines(self) -> list[dict[str, Any]]:
        """A line for each, as the overview has it, the one that began first in front."""
        with self._lock:
            return sorted(self._lines.values(), key=lambda line: (line["start-time"], line["jid"]))

    def ids(self) -> set[str]:
        """The ids of jobs whose archives have been read."""
        with self._lock:
            return set(self._lines)

    def find(self, job_id: str) -> ArchivedJob | None:
        """One of them; None when it is not there, or its archive cannot be read."""
        with self._lock:
            recent = self._recent.get(job_id)
        if recent is not None:
            return recent
        job = self._read(job_id)
        if job is None:
            return None
        with self._lock:
            self._lines[job_id] = job.line
            self._recent[job_id] = job
            while len(self._recent) > _KEPT:
                self._recent.popitem(last=False)
        return job

    def add(self, content: dict[str, Any]) -> None:
        """Write down a job whose driver could not, and keep it; replaces what there was of it."""
        write_archive(self._storage, content)
        with self._lock:
            self._recent.pop(content["jid"], None)
        self.find(content["jid"])

    def forget(self, job_id: str) -> None:
        """Delete one, if it is there: its job runs again."""
        self._storage.delete(f"{job_id}.json")
        with self._lock:
            self._lines.pop(job_id, None)
            self._recent.pop(job_id, None)

    def keep_newest(self, most: int) -> list[str]:
        """Delete the oldest ones, so that only that many are left; which they were."""
        lines = sorted(self.lines(), key=lambda line: line["end-time"])
        gone = [line["jid"] for line in lines[: max(0, len(lines) - most)]]
        for job_id in gone:
            self.forget(job_id)
        return gone

    def _read(self, job_id: str) -> ArchivedJob | None:
        try:
            content = json.loads(self._storage.read(f"{job_id}.json"))
            if content["version"] > FORMAT:
                raise IncompatibleStateError(
                    f"version {content['version']} is newer than this Firesteel, which knows {FORMAT}"
                )
            return ArchivedJob(content)
        except FileMissingError:
            return None
        except (FiresteelError, ValueError, KeyError, TypeError) as error:
            if job_id not in self._unreadable:
                _LOG.warning(
                    "the archive of job %s in %s cannot be read: %s", job_id, shown(self.directory), error
                )
                self._unreadable.add(job_id)
            return None
