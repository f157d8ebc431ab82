"""Drives a service by schemathesis from the description that it offers of itself: what fits it, and what does not.

Answers conform to their shapes and codes whatever is asked, and nothing but what is not there answers with a 5xx.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS

__all__ = ["drive"]

Operation: TypeAlias = "schemathesis.APIOperation[Any, Any, Any, Any]"

_CHECKED = ("status_code_conformance", "content_type_conformance", "response_schema_conformance")

_FEW = settings(
    max_examples=3,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def drive(
    url: str,
    real: Mapping[str, Any],
    is_harmful: Callable[[schemathesis.Case[Any]], bool],
    directory: Path,
    left_out: frozenset[tuple[str, str]] = frozenset(),
) -> int:
    """Ask everything that the description at ``url`` has; how many operations that were.

    ``real``: values of path parameters that mean something, which half of the requests have, unless that would be harmful.
    ``directory``: where whatever is written goes. ``left_out``: methods and paths that are not asked.
    """
    schema = schemathesis.openapi.from_url(f"{url}/v1/openapi.json")
    results: Any = schema.get_all_operations()
    found = [result.ok() for result in results]  # raises where the description is no good
    operations = [each for each in found if (each.method.upper(), each.path) not in left_out]
    assert len(found) - len(operations) == len(left_out)
    for operation in operations:
        _ask_well(operation, real, is_harmful, directory)
        can_be_wrong = operation.body or "{jobid}" in operation.path or "{triggerid}" in operation.path
        if can_be_wrong:
            _ask_badly(operation, directory)
    return len(operations)


def _ask_well(
    operation: Operation,
    real: Mapping[str, Any],
    is_harmful: Callable[[schemathesis.Case[Any]], bool],
    directory: Path,
) -> None:
    checks: Any = [CHECKS.get_one(name) for name in _CHECKED]

    @_FEW
    @given(case=operation.as_strategy(), is_real=st.booleans())
    def ask(case: schemathesis.Case[Any], is_real: bool) -> None:
        # What would do harm, or write wherever the dice say, is asked of what is not there.
        if is_real and not is_harmful(case):
            values = case.path_parameters
            case.path_parameters = {name: real.get(name, value) for name, value in values.items()}
        _tame(case, directory)
        response = case.call()
        case.validate_response(response, checks=checks)
        assert response.status_code < 500 or response.status_code == 501, response.text

    ask()


def _ask_badly(operation: Operation, directory: Path) -> None:
    @_FEW
    @given(case=operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def ask(case: schemathesis.Case[Any]) -> None:
        _tame(case, directory)
        response = case.call()
        assert response.status_code < 500 or response.status_code == 501, response.text

    ask()


def _tame(case: schemathesis.Case[Any], directory: Path) -> None:
    if isinstance(case.body, dict):
        for name in ("target-directory", "targetDirectory", "savepoint-path", "savepointPath"):
            if isinstance(case.body.get(name), str):
                case.body[name] = str(directory / "somewhere")
        case.body.pop("cancel-job", None)
        if isinstance(case.body.get("logger"), str):
            case.body["logger"] = "firesteel_test.schema"  # not a logger of this process
