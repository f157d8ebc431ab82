"""Which user of this machine has opened a connection over loopback: the others of the machine shall get nothing.

Linux lists the sockets of a network namespace with their owners, and both ends of a connection over loopback are in the list.
Other systems do not tell; there every user of the machine is let in.
"""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import Any

__all__ = ["foreign_user"]

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
#: Nobody holds a socket with this inode any more: the kernel sends what is left, and calls its owner root.
_ORPHAN = "0"


def foreign_user(client: tuple[Any, ...], server: tuple[Any, ...]) -> str | None:
    """Why the user at the other end of a connection is refused; None when it is the user of this process, or root.

    Connections from other machines are not looked at.
    """
    try:
        if not ipaddress.ip_address(client[0]).is_loopback:
            return None
    except ValueError:
        return None
    tables = [table.read_text() for table in _TABLES if table.exists()]
    if not tables:
        return None
    owner = owner_of(client[1], server[1], tables)
    if owner is None:
        return "the connection was closed before anybody could see whose it is"
    if owner in (0, os.geteuid()):
        return None
    return f"the REST interface of this driver answers its own user only, and you are user {owner} of this machine"


def owner_of(client_port: int, server_port: int, tables: list[str]) -> int | None:
    """The user who holds the client's socket of a connection; None when nobody does."""
    ends = (f":{client_port:04X}", f":{server_port:04X}")
    for table in tables:
        for line in table.splitlines()[1:]:
            columns = line.split()
            if len(columns) > 9 and columns[1].endswith(ends[0]) and columns[2].endswith(ends[1]):
                return None if columns[9] == _ORPHAN else int(columns[7])
    return None
