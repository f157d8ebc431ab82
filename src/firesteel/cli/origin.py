"""Where the Firesteel that runs was installed from, so that somebody else can install the same one."""

from __future__ import annotations

import json
import shlex
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import firesteel

__all__ = ["is_in_index", "requirement"]

_PACKAGE = "firesteel"


def requirement(extra: str = "") -> str:
    """What to give ``pip install``, quoted for a shell: a path or an address, or the name, if an index has it."""
    suffix = f"[{extra}]" if extra else ""
    place = _place()
    if place is None:
        return shlex.quote(f"{_PACKAGE}{suffix}") if extra else _PACKAGE
    if "://" in place:
        return shlex.quote(f"{_PACKAGE}{suffix} @ {place}")
    return shlex.quote(f"{place}{suffix}")


def is_in_index() -> bool:
    """Whether it came from an index, where a requirement by name finds it again."""
    return _place() is None


def _place() -> str | None:
    """A path, or an address with ``://`` in it; None when an index had it."""
    try:
        recorded = distribution(_PACKAGE).read_text("direct_url.json")
    except PackageNotFoundError:  # imported from a checkout that is on the path
        root = Path(firesteel.__file__).parents[2]
        return str(root) if (root / "pyproject.toml").is_file() else None
    return None if recorded is None else _of_direct_url(json.loads(recorded))


def _of_direct_url(recorded: dict[str, Any]) -> str:
    """What pip has noted, as something that pip takes.

    >>> _of_direct_url({"url": "file:///home/ada/fire%20steel", "dir_info": {"editable": True}})
    '/home/ada/fire steel'
    >>> _of_direct_url({"url": "https://host/f.git", "vcs_info": {"vcs": "git", "commit_id": "0a"}})
    'git+https://host/f.git@0a'
    """
    url: str = recorded["url"]
    if "vcs_info" in recorded:
        vcs = recorded["vcs_info"]
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    elif urlsplit(url).scheme == "file":
        return url2pathname(urlsplit(url).path)
    subdirectory = recorded.get("subdirectory")
    return f"{url}#subdirectory={subdirectory}" if subdirectory else url
