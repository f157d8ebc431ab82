"""A client of the REST interface as anybody could write it, and a check of answers against their shapes."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from firesteel.rest.schemas import COMPONENTS

__all__ = ["RestClient", "check_shape"]

_PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class RestClient:
    """Talks to the service at ``url``."""

    url: str

    def call(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Status code and answer."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, dict(headers or {}), method=method)
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE) as response:
                return response.status, _parsed(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _parsed(error)

    def get(self, path: str) -> Any:
        """The answer of something that must be there."""
        status, answer = self.call("GET", path)
        assert status == 200, (path, status, answer)
        return answer

    def wait_for(self, path: str, condition: Callable[[Any], bool]) -> Any:
        """Ask until the answer is as wanted; a driver that does not answer at the moment (503) is asked again."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            status, answer = self.call("GET", path)
            assert status in (200, 503), (path, status, answer)
            if status == 200 and condition(answer):
                return answer
            assert time.monotonic() < deadline, (path, answer)
            time.sleep(0.01)

    def outcome(self, path: str, trigger: Mapping[str, str]) -> Any:
        """What has become of an operation with a trigger id."""
        done = self.wait_for(
            f"{path}/{trigger['request-id']}", lambda each: each["status"]["id"] == "COMPLETED"
        )
        return done["operation"]


def _parsed(response: Any) -> Any:
    content = response.read()
    is_json = response.headers.get("Content-Type", "").startswith("application/json")
    return json.loads(content) if is_json else content.decode()


def check_shape(answer: Any, shape: str | dict[str, Any]) -> None:
    """Raise unless the answer has the shape that the interface promises."""
    schema = {"$ref": f"#/components/schemas/{shape}"} if isinstance(shape, str) else shape
    jsonschema_rs.validate({**schema, "components": {"schemas": COMPONENTS}}, json.loads(json.dumps(answer)))
