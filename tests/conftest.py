"""What all tests share: a collector of cycles that does not look at ten thousand collected tests again and again."""

from __future__ import annotations

import gc

import pytest


def pytest_collection_finish(session: pytest.Session) -> None:
    """Modules, tests and their parameters live until the end: collections need not look at them."""
    gc.collect()
    gc.freeze()
