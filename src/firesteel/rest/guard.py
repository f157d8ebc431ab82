"""Which requests are refused by what their headers say: a page of another site may have sent them, or they are too large.

A browser sends ``Origin`` with what a foreign page wants to change, and the name that a page was loaded from in ``Host``. A
foreign name that is made to mean this machine (DNS rebinding) is therefore seen in ``Host``; addresses in figures cannot be
rebound.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

__all__ = ["is_too_large", "refusal"]


def refusal(headers: Mapping[str, str], names: frozenset[str]) -> str | None:
    """Why a request with these headers (names in lower case) is refused; None when it is not.

    >>> refusal({"host": "localhost:8081"}, frozenset({"localhost"})) is None
    True
    >>> refusal({"host": "evil.example:8081"}, frozenset({"localhost"}))[:46]
    "the header Host names 'evil.example:8081', and"
    """
    host = headers.get("host", "")
    if not _is_ours(host, names):
        return (
            f"the header Host names {host!r}, and this service is called {', '.join(sorted(names))} or by its address; set "
            "'rest.address' to the name that clients use"
        )
    origin = headers.get("origin")
    if origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
        return f"the request comes from a page of another site, {origin!r}: pages of other sites have no say here"
    if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
        return "the request comes from a page of another site: pages of other sites have no say here"
    return None


def is_too_large(headers: Mapping[str, str], most: int) -> bool:
    """Whether a body is larger than it may be, as far as its client says."""
    length = headers.get("content-length", "0").strip()
    return not length.isascii() or not length.isdigit() or len(length) > 18 or int(length) > most


def _is_ours(host: str, names: frozenset[str]) -> bool:
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    if name.lower() in names:
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
