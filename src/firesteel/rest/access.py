"""Who may do what: bearer tokens from a file, each with a role.

The file has a line for each token, ``role token name``. ``firesteel token`` writes such lines with the SHA-256 of a token in its
place, so that who reads the file, or a copy of it, has no token. Tokens are long and random; a plain hash is enough for those.

The file is read again when it has changed, so a token that is taken out of it is refused from the next request on. A file that
cannot be read lets nobody in.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import os
import re
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from firesteel.common._private_files import who_else_reads
from firesteel.common.errors import InvalidOptionError
from firesteel.common.options import REST_TOKENS_FILE
from firesteel.rest.errors import Unauthorized

__all__ = ["Role", "TokenFile", "hashed", "new_token", "read_tokens"]

_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")
_TOKEN_BYTES = 32


class Role(enum.Enum):
    """What somebody may do; who may operate may read, too."""

    READ_ONLY = "read-only"
    OPERATOR = "operator"

    def may(self, needed: Role) -> bool:
        """Whether this role is enough where another is needed."""
        return self is Role.OPERATOR or needed is Role.READ_ONLY


@dataclass(frozen=True, slots=True)
class Entry:
    """A token of the file: the hash of it, the role of who has it, and a name for people."""

    digest: bytes = field(repr=False)
    role: Role
    name: str = ""


class TokenFile:
    """The tokens that are let in now; may be used from any thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] | None = None
        self._entries: Sequence[Entry] = ()

    def role_of(self, authorization: str | None) -> Role:
        """The role of who sends this header; raises what is to be answered to others."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthorized("a token is needed here: send the header 'Authorization: Bearer TOKEN'")
        try:
            with self._lock:
                self._refresh()
                entries = self._entries
        except (InvalidOptionError, OSError) as error:
            raise Unauthorized(
                f"nobody is let in, because the file of tokens cannot be used: {error}"
            ) from error
        digest = hashlib.sha256(token.strip().encode("utf-8", "surrogateescape")).digest()
        # All of them, however early one fits: the time that it takes tells nothing.
        roles = [entry.role for entry in entries if hmac.compare_digest(entry.digest, digest)]
        if not roles:
            raise Unauthorized("this token is not, or no more, one of those that are let in")
        return Role.OPERATOR if Role.OPERATOR in roles else Role.READ_ONLY

    def _refresh(self) -> None:
        status = os.stat(self._path)
        now = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size)
        if now == self._seen:
            return
        self._seen, self._entries = None, ()
        self._entries = read_tokens(self._path)
        self._seen = now


def read_tokens(path: str) -> list[Entry]:
    """All tokens of a file; raises InvalidOptionError when it is not one for tokens, or others can read it."""
    option = f"option '{REST_TOKENS_FILE.key}'"
    try:
        if (readers := who_else_reads(path)) is not None:
            raise InvalidOptionError(
                f"{option}: {readers}; tokens are for their owner only: chmod 600 {path}"
            )
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOptionError(f"{option}: {path!r} cannot be read: {error}") from error
    entries = [
        _entry(line, f"{option}: line {number} of {path!r}")
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not entries:
        raise InvalidOptionError(
            f"{option}: {path!r} has no token, so nobody could ask anything; add one with 'firesteel token {path}'"
        )
    return entries


def _entry(line: str, where: str) -> Entry:
    """The line is not quoted in errors: there may be a token in it."""
    role, token, name = (*line.split(maxsplit=2), "", "")[:3]
    roles = {each.value: each for each in Role}
    if role not in roles:
        raise InvalidOptionError(
            f"{where}: expected 'role token name' with a role of {', '.join(roles)}; the line begins otherwise"
        )
    if _HASH.fullmatch(token):
        digest = bytes.fromhex(token.removeprefix("sha256:"))
    elif _TOKEN.fullmatch(token) and not token.startswith("sha256:"):
        digest = hashlib.sha256(token.encode()).digest()
    else:
        raise InvalidOptionError(
            f"{where}: expected as second word a token of 16 to 512 letters, digits and -._~+/=, or sha256: and 64 hexadecimal "
            "digits"
        )
    return Entry(digest, roles[role], name.strip())


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def hashed(token: str) -> str:
    """A token as files should have it."""
    return f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"
