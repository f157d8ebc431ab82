"""What is said when the client library of another system is not installed."""

from __future__ import annotations

from firesteel.common.errors import SetupError


def missing_client(system: str, package: str, extra: str) -> SetupError:
    """The error for a connector whose client is missing.

    >>> missing_client("Redis", "redis", "redis")
    SetupError("the connector for Redis needs the package redis, which is not installed: pip install 'firesteel[redis]'")
    """
    return SetupError(
        f"the connector for {system} needs the package {package}, which is not installed: pip install 'firesteel[{extra}]'"
    )
