"""Which user of this machine has opened a connection over loopback: the others of the machine shall get nothing.

Linux knows the sockets of a network namespace with their owners, and both ends of a connection over loopback are among them.
Other systems do not tell; there every user of the machine is let in.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import struct
from pathlib import Path
from typing import Any

__all__ = ["foreign_user"]

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
#: Nobody holds a socket with this inode any more: the kernel sends what is left, and calls its owner root.
_ORPHAN = 0
#: Whose a connection is where the system does not tell.
_UNKNOWN = -1

# Of Linux's sock_diag(7).
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, _NLMSG_ERROR = 4, 20, 1, 2
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence number, port
_REQUEST = struct.Struct("=BBBBI")  # family, protocol, extensions, padding, states
_PORTS = struct.Struct("!HH")
_INTERFACE_AND_COOKIE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)  # any
_OWNER = struct.Struct("=II")  # user, inode
_OWNER_AT = _HEADER.size + 4 + 48 + 12  # behind family and state, both addresses, timer and queues
_ANSWER_BYTES = 1 << 14


def foreign_user(client: tuple[Any, ...], server: tuple[Any, ...]) -> str | None:
    """Why the user at the other end of a connection is refused; None when it is the user of this process, or root.

    Connections from other machines are not looked at.
    """
    address = _address(client[0])
    if address is None or not address.is_loopback:
        return None
    owner = _owner(address, client[1], server)
    if owner is None:
        return "the connection was closed before anybody could see whose it is"
    if owner in (0, os.geteuid(), _UNKNOWN):
        return None
    return f"the REST interface of this driver answers its own user only, and you are user {owner} of this machine"


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    # A socket that listens for both kinds gets the one as the other.
    return getattr(address, "ipv4_mapped", None) or address


def _owner(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int, server: tuple[Any, ...]
) -> int | None:
    try:
        owner = asked_owner(address, port, _address(server[0]) or address, server[1])
    except (OSError, AttributeError):  # no Linux, or one that does not let this process ask
        owner = _UNKNOWN
    if owner != _UNKNOWN:
        return owner
    tables = [table.read_text() for table in _TABLES if table.exists()]
    return owner_of(port, server[1], tables) if tables else _UNKNOWN


def asked_owner(
    client: ipaddress.IPv4Address | ipaddress.IPv6Address,
    client_port: int,
    server: ipaddress.IPv4Address | ipaddress.IPv6Address,
    server_port: int,
) -> int | None:
    """The user who holds the client's socket, asked of the kernel by name: however many sockets there are, it takes no longer.

    The tables of /proc take milliseconds to read, which a crowd of connections would make seconds of for everybody.
    """
    family = socket.AF_INET if client.version == 4 else socket.AF_INET6
    request = (
        _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF)
        + _PORTS.pack(client_port, server_port)
        + client.packed.ljust(16, b"\0")
        + server.packed.ljust(16, b"\0")
        + _INTERFACE_AND_COOKIE
    )
    header = _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as asking:
        asking.send(header + request)  # the answer is there when this returns
        answer = asking.recv(_ANSWER_BYTES, socket.MSG_DONTWAIT)
    _, kind, _, _, _ = _HEADER.unpack_from(answer)
    if kind == _NLMSG_ERROR:
        (number,) = struct.unpack_from("=i", answer, _HEADER.size)
        return None if -number == errno.ENOENT else _UNKNOWN
    user, inode = _OWNER.unpack_from(answer, _OWNER_AT)
    return None if inode == _ORPHAN else int(user)


def owner_of(client_port: int, server_port: int, tables: list[str]) -> int | None:
    """The user who holds the client's socket of a connection, by the tables of /proc; None when nobody does."""
    ends = (f":{client_port:04X}", f":{server_port:04X}")
    for table in tables:
        for line in table.splitlines()[1:]:
            columns = line.split()
            if len(columns) > 9 and columns[1].endswith(ends[0]) and columns[2].endswith(ends[1]):
                return None if int(columns[9]) == _ORPHAN else int(columns[7])
    return None
