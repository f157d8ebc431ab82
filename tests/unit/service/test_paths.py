"""The table of a service's paths: all of a driver's, those with jars, one row for each."""

from __future__ import annotations

import re
import threading
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.job_metrics import DriverProcess, process_readings
from firesteel.rest.archive import archive_of
from firesteel.rest.endpoints import Call, Context
from firesteel.rest.errors import NotThere
from firesteel.rest.openapi import openapi_document
from firesteel.rest.paths import ENDPOINTS
from firesteel.rest.settings import RestSettings
from firesteel.service.archives import ArchivedJobs
from firesteel.service.artifacts import Artifacts
from firesteel.service.dispatcher import Dispatcher
from firesteel.service.drivers import Drivers
from firesteel.service.folder import ServiceFolder
from firesteel.service.history_server import HistoryServer
from firesteel.service.paths import ServicePaths
from firesteel.service.plans import PlanMaker
from firesteel.service.records import DriverReport, JobReport, ProcessMark, SubmittedProgram
from firesteel.service.stand_ins import StandIn

OWN = {
    ("GET", "/jars/{jarid}/plan"),
    ("POST", "/jobs"),
    ("GET", "/jobs/{jobid}/jobmanager/log"),
}


@pytest.fixture
def dispatcher(tmp_path: Path) -> Dispatcher:
    folder = ServiceFolder(tmp_path)
    folder.prepare()
    drivers = Drivers(folder.work, folder.path / "spares", 0)
    return Dispatcher(folder, drivers, ArchivedJobs(str(folder.archive)), 8, 10)


@pytest.fixture
def paths(dispatcher: Dispatcher) -> ServicePaths:
    folder = dispatcher.folder
    return ServicePaths(
        dispatcher, Artifacts(folder.jars), PlanMaker(folder.path), {}, lambda: "http://x:1", lambda: None
    )


def test_every_path_of_a_driver_is_one_of_the_service(paths: ServicePaths) -> None:
    rows = Counter((each.method, each.path) for each in paths.endpoints())
    assert set(rows.values()) == {1}
    assert rows.keys() - {(each.method, each.path) for each in ENDPOINTS} == OWN


def test_fixed_names_come_before_parameters(paths: ServicePaths) -> None:
    order = [each.path for each in paths.endpoints()]
    assert order.index("/jars/upload") < order.index("/jars/{jarid}")
    assert order.index("/jobs/overview") < order.index("/jobs/{jobid}")


def test_the_page_lists_what_only_a_service_has(paths: ServicePaths) -> None:
    page = (Path(__file__).parents[3] / "docs" / "cluster.md").read_text(encoding="utf-8")
    wanted = [each for each in paths.endpoints() if "/jars" in each.path or (each.method, each.path) in OWN]
    shown = [re.sub(r"\{(\w+)\}", r":\1", each.path) for each in wanted if each.status != 501]
    assert [path for path in shown if f"`{path}`" not in page] == []


def test_the_description_resolves(paths: ServicePaths) -> None:
    document = openapi_document(paths.endpoints())
    names = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert names == set(document["components"]["schemas"])
    upload = document["paths"]["/v1/jars/upload"]["post"]
    assert "multipart/form-data" in upload["requestBody"]["content"]


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_job_that_has_just_ended_is_asked_for_until_it_is_written_down(
    paths: ServicePaths, dispatcher: Dispatcher, is_alive: bool
) -> None:
    """Its driver says that it is over, and answers nothing any more; the answers about it come a moment later."""
    job_id = "5" * 32
    folder = dispatcher.folder.job(job_id)
    folder.path.mkdir()
    managed = dispatcher.submit(folder, SubmittedProgram(job_id, 1, "program"))
    ended = JobReport(job_id, "short", 2, 1, status="FINISHED", ended=9)
    managed.report = DriverReport(ProcessMark(1, "elsewhere"), "http://127.0.0.1:9", (ended,))
    managed.is_alive = is_alive
    stand_in = StandIn(job_id, "short", JobStatus.FINISHED, 1, 9)
    archived = archive_of(job_id, stand_in.served())
    timer = threading.Timer(0.3, lambda: dispatcher.archive.add(archived))
    (endpoint,) = (each for each in paths.endpoints() if (each.method, each.path) == ("GET", "/jobs/{jobid}"))
    timer.start()
    try:
        answer: Any = endpoint.answer(Call(cast(Context, None), {"jobid": job_id}))
    finally:
        timer.join()
        paths.close()
    assert answer["state"] == "FINISHED"


def test_the_metrics_of_the_service_are_those_that_a_driver_has(paths: ServicePaths) -> None:
    (endpoint,) = (each for each in paths.endpoints() if each.path == "/jobmanager/metrics")
    names = {each["id"] for each in endpoint.answer(Call(cast(Context, None), {}, {}))}
    process = {".".join((*groups, name)) for groups, name, *_ in process_readings(DriverProcess().read())}
    assert "Status.JVM.Memory.Heap.Used" in process
    assert names == process | {
        "numRunningJobs",
        "numRegisteredTaskManagers",
        "taskSlotsTotal",
        "taskSlotsAvailable",
    }
    asked = Call(cast(Context, None), {}, {"get": ["numRegisteredTaskManagers"]})
    assert endpoint.answer(asked) == [{"id": "numRegisteredTaskManagers", "value": "0"}]
    paths.close()


def test_applications_are_refused_with_a_sentence_of_the_service(paths: ServicePaths) -> None:
    refused = [each for each in paths.endpoints() if each.path.startswith("/applications")]
    assert len(refused) == 5
    for each in refused:
        assert each.status == 501
        with pytest.raises(NotThere, match="the service runs each program as an application of its own"):
            each.answer(Call(cast(Context, None), {}))


def test_the_page_says_what_a_service_answers_where_it_has_nothing(paths: ServicePaths) -> None:
    page = (Path(__file__).parents[3] / "docs" / "cluster.md").read_text(encoding="utf-8")
    missing = [each for each in paths.endpoints() if each.status == 501]
    own = [each for each in missing if each.path.startswith(("/jars", "/applications"))]
    shown = {re.sub(r"\{(\w+)\}", r":\1", each.path) for each in own}
    assert [path for path in sorted(shown) if f"`{path}`" not in page and f" {path}`" not in page] == []


def test_the_history_server_changes_nothing(tmp_path: Path) -> None:
    server = HistoryServer(RestSettings(), str(tmp_path), 60.0)
    changing = [each for each in server.endpoints() if each.method != "GET"]
    server.close()
    assert {each.status for each in changing} <= {404, 501}
