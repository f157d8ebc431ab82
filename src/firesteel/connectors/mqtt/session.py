"""Sessions with an MQTT broker, and what is said when there is none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from firesteel.common.errors import InvalidArgumentError, JobExecutionError
from firesteel.connectors.extras import missing_client

try:
    from paho.mqtt import client as paho
    from paho.mqtt.enums import CallbackAPIVersion
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties
except ImportError as error:  # pragma: no cover - the tests have it
    raise missing_client("MQTT", "paho-mqtt", "mqtt") from error

#: How long a broker may take to answer.
ANSWER_SECONDS = 30.0
#: How long the broker keeps a session whose client is gone: messages for it wait there.
SESSION_SECONDS = 7 * 24 * 3600
#: MQTT's reason codes for names, passwords and rights.
_REFUSED = {"Bad user name or password", "Not authorized", "Client identifier not valid", "Banned"}


def check_url(url: str) -> str:
    """The URL, if it can be one."""
    parts = urlsplit(url)
    if parts.scheme not in {"mqtt", "mqtts"} or not parts.hostname:
        raise InvalidArgumentError(
            "a URL of an MQTT broker is mqtt://[user:password@]host[:port], or mqtts:// with TLS; "
            f"got one with the scheme {parts.scheme!r} and the host {parts.hostname!r}"
        )
    return url


def place_of(url: str) -> str:
    """Where a broker is, without the password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


class Session:
    """A connection by MQTT 5; the client's thread calls ``on_message``. `lost` says why there is none any more."""

    def __init__(self, url: str, client_id: str, keep: bool, on_message: Callable[[Any], None]) -> None:
        self._url = url
        self.lost: str | None = None
        self._answered = threading.Event()
        self._refused = ""
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=paho.MQTTv5,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        parts = urlsplit(url)
        if parts.username is not None:
            self.client.username_pw_set(unquote(parts.username), unquote(parts.password or ""))
        if parts.scheme == "mqtts":
            self.client.tls_set()
        self.client.on_connect = self._on_connect
        self.client.on_disconnect = self._on_disconnect
        self.client.on_message = lambda _client, _data, message: on_message(message)
        self._connect(parts.hostname or "", parts.port or (8883 if parts.scheme == "mqtts" else 1883), keep)

    def _connect(self, host: str, port: int, keep: bool) -> None:
        make: Any = Properties
        properties = make(PacketTypes.CONNECT)
        if keep:
            properties.SessionExpiryInterval = SESSION_SECONDS
            properties.ReceiveMaximum = 65535
        try:
            self.client.connect(host, port, keepalive=30, clean_start=not keep, properties=properties)
        except OSError as error:
            raise ConnectionError(f"{place_of(self._url)}: {error}") from error
        self.client.loop_start()
        if not self._answered.wait(ANSWER_SECONDS):
            self.close()
            raise ConnectionError(f"{place_of(self._url)} gave no answer in {ANSWER_SECONDS:g} s")
        if self._refused:
            self.close()
            raise self._refusal()

    def _refusal(self) -> Exception:
        sentence = f"{place_of(self._url)} refuses the connection: {self._refused}"
        if self._refused in _REFUSED:
            return JobExecutionError(f"{sentence}; check user name and password in the URL")
        return ConnectionError(sentence)

    def _on_connect(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        self._refused = str(reason) if reason.is_failure else ""
        self._answered.set()

    def _on_disconnect(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        self.lost = str(reason)

    def check(self) -> None:
        """Raise if the connection is lost."""
        if self.lost is not None:
            raise ConnectionError(f"the connection to {place_of(self._url)} is lost: {self.lost}")

    def close(self) -> None:
        """End the connection; the broker keeps the session, if it was asked to."""
        self.client.disconnect()
        self.client.loop_stop()
