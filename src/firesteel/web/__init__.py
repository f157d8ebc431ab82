"""The web interface: static files that a browser loads and that read the REST interface, and nothing else.

Nothing here serves anything: `firesteel.rest` mounts `directory()` at the root of its port and sends
`CONTENT_SECURITY_POLICY` with every file. The files are used as they are: there is no build step, and nothing is loaded
from anywhere else, so the pages work without a network.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["CONTENT_SECURITY_POLICY", "INDEX", "directory"]

#: The page that a browser asks for first; all others are parts of it, named behind the "#" of its address.
INDEX: Final = "index.html"

#: What the pages need, and no more: scripts, styles, pictures and requests of their own origin. Nothing is inline.
CONTENT_SECURITY_POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)


def directory() -> Path:
    """Where the static files are.

    >>> (directory() / INDEX).is_file()
    True
    """
    return Path(__file__).parent / "static"
