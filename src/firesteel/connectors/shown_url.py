"""URLs in messages and logs, without what may be secret."""

from __future__ import annotations

from urllib.parse import urlsplit

__all__ = ["shown_url"]


def shown_url(url: str) -> str:
    """The URL without user, password and query.

    >>> shown_url("https://me:secret@example.org:8080/orders?token=1")
    'https://example.org:8080/orders'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
