"""What Kafka's client says in the background: calls only time out, and why is told elsewhere."""

from __future__ import annotations

import logging
import math
import time
from typing import Any

__all__ = ["Trouble", "describe", "refusal"]

#: While brokers are away, this is said so often.
WARNING_SECONDS = 60.0

_ALL_BROKERS_DOWN = -187
_AUTHENTICATION = -169
_SSL = -181

_LOG = logging.getLogger(__name__)


def describe(error: Any) -> str:
    """What the client library says, without its wrapping."""
    told = error.args[0] if isinstance(error, Exception) and error.args else error
    text = getattr(told, "str", None)
    return f"{text()} ({told.name()})" if callable(text) else str(told)


def refusal(servers: str, reason: str) -> str:
    """The sentence for brokers that do not let us in, or that we do not trust."""
    return (
        f"Kafka at {servers} cannot be used with these security properties: {reason}; check security.protocol, sasl.mechanism, "
        "sasl.username, sasl.password, ssl.ca.location and, where brokers ask for a certificate, ssl.certificate.location and "
        "ssl.key.location"
    )


class Trouble:
    """Listens to a client (``error_cb``): remembers the best reason it gave, and tells it once in a while.

    ``refused``: trying again does not help, because a login or a certificate is wrong. ``who`` has the trouble.
    """

    def __init__(self, who: str, servers: str) -> None:
        self._who = who
        self._servers = servers
        self._told_at = -math.inf
        self.reason = ""
        self.refused = False

    def note(self, error: Any) -> None:
        """The client has trouble, and goes on trying."""
        if error.code() != _ALL_BROKERS_DOWN or not self.reason:
            self.reason = describe(error)
        # An alert is the other side's word on our certificate, whatever the client takes it for.
        self.refused |= error.code() in (_AUTHENTICATION, _SSL) or "SSL alert" in self.reason
        self._tell()

    def is_over(self) -> None:
        """Brokers answer: what was told before is of no more use."""
        self.reason, self.refused = "", False

    def _tell(self) -> None:
        now = time.monotonic()
        if now - self._told_at >= WARNING_SECONDS:
            self._told_at = now
            _LOG.warning(
                "the Kafka %s has trouble with %s, and tries again: %s", self._who, self._servers, self.reason
            )
