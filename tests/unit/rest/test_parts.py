"""What the service is made of: settings, guard, operations, tables of paths, the description of itself."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path

import jsonschema_rs
import pytest

from firesteel.common.completable_future import CompletableFuture
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.rest.endpoints import PATH_PARAMETERS, Endpoint, read_body, read_query
from firesteel.rest.errors import Malformed
from firesteel.rest.guard import refusal
from firesteel.rest.openapi import PREFIX, openapi_document
from firesteel.rest.operations import Operations
from firesteel.rest.paths import ENDPOINTS
from firesteel.rest.paths.missing import MISSING
from firesteel.rest.peers import asked_owner, foreign_user, owner_of
from firesteel.rest.settings import read_rest_settings

NAMES = frozenset({"localhost"})
ROOT = Path(__file__).parents[3]


def settings_of(**options: str) -> object:
    return read_rest_settings(Configuration.from_dict({k.replace("_", "."): v for k, v in options.items()}))


# Settings.


def test_the_default_port_is_that_of_flink_and_the_next_ones_after_it() -> None:
    settings = read_rest_settings(Configuration())
    assert settings is not None
    assert settings.ports[:2] == (8081, 8082)
    assert not settings.is_asked_for
    assert settings.bind_address == "127.0.0.1"


def test_a_port_that_was_chosen_is_the_only_one() -> None:
    settings = read_rest_settings(Configuration.from_dict({"rest.port": "9000"}))
    assert settings is not None
    assert (settings.ports, settings.is_asked_for) == ((9000,), True)
    ranges = read_rest_settings(Configuration.from_dict({"rest.bind-port": "9000-9002"}))
    assert ranges is not None
    assert ranges.ports == (9000, 9001, 9002)


def test_minus_one_switches_it_off() -> None:
    assert settings_of(rest_port="-1") is None
    with pytest.raises(InvalidOptionError, match="expected a port"):
        settings_of(rest_port="70000")


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.0.0.1", "some-host"])
def test_an_address_that_others_reach_is_refused_unless_allowed(address: str) -> None:
    options = {"rest.bind-address": address}
    with pytest.raises(InvalidOptionError, match=r"firesteel\.rest\.allow-remote"):
        read_rest_settings(Configuration.from_dict(options))
    allowed = read_rest_settings(Configuration.from_dict({**options, "firesteel.rest.allow-remote": "true"}))
    assert allowed is not None
    assert allowed.bind_address == address


def test_nothing_of_the_web_framework_is_imported_with_the_launcher() -> None:
    code = "import sys, firesteel.launch, firesteel.rest.service; print({'starlette', 'uvicorn'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# The guard.


@pytest.mark.parametrize("host", ["localhost:8081", "LOCALHOST", "127.0.0.1:80", "[::1]:8081", "[::1]"])
def test_requests_to_this_machine_are_let_in(host: str) -> None:
    assert refusal({"host": host}, NAMES) is None
    assert refusal({"host": host, "origin": f"http://{host}"}, NAMES) is None


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:8081", "", "1.2.3.4.evil.example"])
def test_other_names_for_this_machine_are_refused(host: str) -> None:
    assert "Host" in (refusal({"host": host}, NAMES) or "")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:9999", "https://x"])
def test_pages_of_other_sites_are_refused(origin: str) -> None:
    assert "another site" in (refusal({"host": "localhost:8081", "origin": origin}, NAMES) or "")


def test_a_link_from_another_site_may_open_a_page_but_its_scripts_may_not_ask() -> None:
    headers = {"host": "localhost:8081", "sec-fetch-site": "cross-site"}
    assert refusal(headers, NAMES) is not None
    assert refusal({**headers, "sec-fetch-mode": "navigate"}, NAMES) is None


_SOCKETS = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 100 1
   1: 0100007F:1F91 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 101 1
   2: 0100007F:C001 0100007F:1F91 01 00000000:00000000 00:00000000 00000000  1001        0 102 1
   3: 0100007F:C002 0100007F:1F91 05 00000000:00000000 00:00000000 00000000     0        0 0 1
"""


def test_the_owner_of_a_connection_is_who_holds_the_socket_of_the_client() -> None:
    assert owner_of(0xC001, 0x1F91, [_SOCKETS]) == 1001
    assert owner_of(0xC002, 0x1F91, [_SOCKETS]) is None, "closed already: the kernel calls it root's"
    assert owner_of(0xC003, 0x1F91, [_SOCKETS]) is None


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell whose a connection is")
@pytest.mark.parametrize(
    ("listens", "connects"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1")]
)
def test_the_kernel_tells_whose_a_connection_is(listens: str, connects: str) -> None:
    family = socket.AF_INET6 if ":" in listens else socket.AF_INET
    with socket.create_server((listens, 0), family=family, dualstack_ipv6=listens == "::") as server:
        client = socket.create_connection((connects, server.getsockname()[1]))
        accepted, address = server.accept()
        ends = (ip_address(connects), client.getsockname()[1], ip_address(connects), client.getpeername()[1])
        with accepted:
            assert asked_owner(*ends) == os.geteuid()
            assert foreign_user(address, accepted.getsockname()) is None
            client.close()
            assert asked_owner(*ends) is None, "the kernel calls it root's"
            assert "was closed" in (foreign_user(address, accepted.getsockname()) or "")
        assert asked_owner(ends[0], 1, *ends[2:]) is None


def test_connections_of_other_machines_have_no_owner_here() -> None:
    assert foreign_user(("10.0.0.7", 4000), ("10.0.0.1", 8081)) is None


# Operations.


def test_an_operation_with_the_same_id_is_started_once() -> None:
    operations, begun = Operations(), []

    def begin() -> CompletableFuture:
        begun.append(CompletableFuture())
        return begun[-1]

    scope = ("savepoint", "job")
    first = operations.start(scope, "a" * 32, begin)
    assert operations.start(scope, "a" * 32, begin) == first == "a" * 32
    assert len(begun) == 1
    found = operations.find(scope, first)
    assert found is not None
    assert not found.done()
    begun[0].complete("/path")
    assert found.result(1) == "/path"
    assert operations.find(("checkpoint", "job"), first) is None


def test_the_end_waits_for_those_who_have_not_heard_and_for_nobody_else() -> None:
    operations = Operations()
    operations.await_told(60.0)  # returns at once
    trigger = operations.start(("savepoint", ""), None, lambda: CompletableFuture.completed("x"))
    assert re.fullmatch(r"[0-9a-f]{32}", trigger)
    operations.await_told(0.01)  # gives up
    operations.find(("savepoint", ""), trigger)
    operations.await_told(60.0)


# Reading requests.


def endpoint(path: str, method: str = "GET") -> Endpoint:
    return next(each for each in ENDPOINTS if (each.method, each.path) == (method, path))


def test_parameters_are_read_and_refused_with_what_was_expected() -> None:
    metrics = endpoint("/jobs/metrics")
    assert read_query(metrics, {"get": "a,b,,", "agg": "MIN,max", "other": "x"}) == {
        "get": ["a", "b"],
        "agg": ["min", "max"],
    }
    with pytest.raises(Malformed, match="expected one of min, max, avg, sum, skew, got 'worst'"):
        read_query(metrics, {"agg": "worst"})
    with pytest.raises(Malformed, match="parameter 'jobid': expected 32 hexadecimal digits"):
        PATH_PARAMETERS["jobid"].read("x")
    with pytest.raises(Malformed, match="whole number"):
        PATH_PARAMETERS["checkpointid"].read("9" * 40)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "not JSON"),
        (b"[1]", "expected an object"),
        (b'{"drain": "maybe"}', "expected true or false"),
        (b'{"drian": true}', "there is no field 'drian'"),
        (b'{"triggerId": "x"}', "32 hexadecimal digits"),
        (b'{"formatType": "OTHER"}', "one of CANONICAL, NATIVE"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_bodies_that_do_not_fit_are_refused(content: bytes, problem: str) -> None:
    with pytest.raises(Malformed, match=problem):
        read_body(endpoint("/jobs/{jobid}/stop", "POST"), content)


def test_a_body_may_be_missing_where_nothing_in_it_is_needed() -> None:
    assert read_body(endpoint("/jobs/{jobid}/stop", "POST"), b"") == {}
    with pytest.raises(Malformed, match="'savepoint-path' is missing"):
        read_body(endpoint("/savepoint-disposal", "POST"), b"")


# Paths.


def test_every_path_of_flink_is_there_or_says_why_not() -> None:
    known = (ROOT / "tests" / "unit" / "rest" / "flink_paths.txt").read_text(encoding="utf-8").splitlines()
    wanted = {tuple(line.split()) for line in known if not line.startswith("#")}
    ours = {(each.method, each.path) for each in ENDPOINTS}
    assert wanted - ours == set()


def test_the_page_lists_what_is_missing() -> None:
    page = (ROOT / "docs" / "rest.md").read_text(encoding="utf-8")
    shown = [re.sub(r"\{(\w+)\}", r":\1", path) for _, path, _, _ in MISSING]
    assert [path for path in shown if path not in page] == []


def test_the_page_lists_every_path() -> None:
    page = (ROOT / "docs" / "rest.md").read_text(encoding="utf-8")
    shown = [re.sub(r"\{(\w+)\}", r":\1", each.path) for each in ENDPOINTS]
    assert [path for path in shown if f"`{path}`" not in page] == []


def test_the_description_is_complete_and_its_references_resolve() -> None:
    document = openapi_document(ENDPOINTS)
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert len(operations) == len(ENDPOINTS)
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    assert all(path.startswith(PREFIX) for path in document["paths"])
    names = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert names == set(document["components"]["schemas"]), (
        "every shape is used, and every one that is used is there"
    )
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.validator_for({**schema, "components": document["components"]})
