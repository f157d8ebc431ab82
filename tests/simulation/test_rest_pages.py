"""The web interface at the port of the REST interface: files with their headers, and nothing beside them."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Iterator
from email.message import Message
from typing import NamedTuple

import pytest

from firesteel.rest.listener import Listener
from firesteel.rest.service import RestService
from firesteel.rest.settings import RestSettings
from firesteel.web import CONTENT_SECURITY_POLICY, directory


@pytest.fixture(scope="module")
def service() -> Iterator[RestService]:
    service = RestService(RestSettings())
    yield service
    service.close()


class Answer(NamedTuple):
    status: int
    headers: Message
    content: bytes


def ask(service: RestService, path: str, **headers: str) -> Answer:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=120)) as connection:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())


def test_the_first_page_comes_with_its_policy(service: RestService) -> None:
    page = ask(service, "/")
    assert page.status == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    assert page.content == (directory() / "index.html").read_bytes()


@pytest.mark.parametrize("path", ["js/main.js", "js/parts/graph.js", "css/base.css", "icon.svg"])
def test_a_file_comes_with_a_type_that_browsers_take(service: RestService, path: str) -> None:
    kinds = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    answer = ask(service, f"/{path}")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith(kinds[path.rsplit(".", 1)[1]])
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_file_that_has_not_changed_is_not_sent_again(service: RestService) -> None:
    tag = ask(service, "/js/main.js").headers["ETag"]
    again = ask(service, "/js/main.js", **{"If-None-Match": tag})
    assert (again.status, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path", ["/js/no.js", "/js/../../__init__.py", "/js/%2e%2e/%2e%2e/__init__.py", "/js", "/css/"]
)
def test_nothing_else_is_served(service: RestService, path: str) -> None:
    answer = ask(service, path)
    assert answer.status == 404
    assert b"there is no path" in answer.content


def test_pages_of_other_sites_get_nothing(service: RestService) -> None:
    assert ask(service, "/js/main.js", Origin="http://evil.example").status == 403


def test_an_answer_does_not_wait_for_the_acknowledgement_of_its_first_part() -> None:
    """By Nagle's algorithm each would take 40 ms, however fast the machine is."""
    with Listener(socket.AF_INET) as listener:
        assert listener.proto == socket.IPPROTO_TCP
