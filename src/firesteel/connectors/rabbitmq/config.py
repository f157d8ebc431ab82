"""How to reach RabbitMQ: host, user and what the client may do when a connection is lost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from firesteel.common.errors import InvalidArgumentError
from firesteel.connectors.backoff import Backoff


@dataclass(frozen=True)
class RMQConnectionConfig:
    """A connection to RabbitMQ; `RMQConnectionConfig.Builder` makes one. Times are in milliseconds, heartbeats in seconds."""

    host: str | None = None
    port: int = 5672
    virtual_host: str = "/"
    user_name: str = "guest"
    password: str = "guest"
    uri: str | None = None
    network_recovery_interval: int | None = None
    automatic_recovery: bool = True
    topology_recovery: bool = True
    connection_timeout: int | None = None
    requested_channel_max: int | None = None
    requested_frame_max: int | None = None
    requested_heartbeat: int | None = None
    prefetch_count: int | None = None

    def __post_init__(self) -> None:
        if self.host is None and self.uri is None:
            raise InvalidArgumentError(
                "a connection to RabbitMQ needs a host or a URI: RMQConnectionConfig.Builder().set_host(...) or .set_uri(...)"
            )

    @property
    def place(self) -> str:
        """Where it is, without the password."""
        if self.uri is not None:
            parts = urlsplit(self.uri)
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        return f"amqp://{self.host}:{self.port}{'' if self.virtual_host == '/' else '/' + self.virtual_host}"

    @property
    def backoff(self) -> Backoff:
        """How often a lost connection is made again."""
        if not self.automatic_recovery:
            return Backoff(tries=0)
        interval = self.network_recovery_interval
        return Backoff() if interval is None else Backoff(interval / 1000, max(10.0, interval / 1000))

    def get_host(self) -> str | None:
        """The host; None with a URI."""
        return self.host

    def get_port(self) -> int:
        """The port beside the host; 5672 unless told."""
        return self.port

    def get_virtual_host(self) -> str:
        """Which of the broker's name spaces is used; ``/`` unless told."""
        return self.virtual_host

    def get_user_name(self) -> str:
        """Who connects; ``guest`` unless told."""
        return self.user_name

    def get_password(self) -> str:
        """How he proves it; ``guest`` unless told."""
        return self.password

    def get_uri(self) -> str | None:
        """The URI, None without one."""
        return self.uri

    def get_network_recovery_interval(self) -> int | None:
        """How long to wait before a lost connection is made again, at first."""
        return self.network_recovery_interval

    def is_automatic_recovery(self) -> bool:
        """Whether lost connections are made again; otherwise the job is restarted by its strategy."""
        return self.automatic_recovery

    def is_topology_recovery(self) -> bool:
        """Whether queues are declared again with a new connection, which always happens."""
        return self.topology_recovery

    def get_connection_timeout(self) -> int | None:
        """How long connecting may take."""
        return self.connection_timeout

    def get_requested_channel_max(self) -> int | None:
        """How many channels a connection may have."""
        return self.requested_channel_max

    def get_requested_frame_max(self) -> int | None:
        """How many bytes a frame may have."""
        return self.requested_frame_max

    def get_requested_heartbeat(self) -> int | None:
        """Seconds between signs of life."""
        return self.requested_heartbeat

    class Builder:
        """Collects settings; what is not set is as RabbitMQ and its client have it."""

        def __init__(self) -> None:
            self._settings: dict[str, Any] = {}

        def _set(self, name: str, value: Any) -> RMQConnectionConfig.Builder:
            self._settings[name] = value
            return self

        def set_port(self, port: int) -> RMQConnectionConfig.Builder:
            """5672, unless it is set."""
            if not 0 < port < 65536:
                raise InvalidArgumentError(f"a port is a number between 1 and 65535, got {port}")
            return self._set("port", port)

        def set_host(self, host: str) -> RMQConnectionConfig.Builder:
            """The name or address of the server."""
            return self._set("host", host)

        def set_virtual_host(self, vhost: str) -> RMQConnectionConfig.Builder:
            """``/``, unless it is set."""
            return self._set("virtual_host", vhost)

        def set_user_name(self, user_name: str) -> RMQConnectionConfig.Builder:
            """``guest``, unless it is set."""
            return self._set("user_name", user_name)

        def set_password(self, password: str) -> RMQConnectionConfig.Builder:
            """``guest``, unless it is set."""
            return self._set("password", password)

        def set_uri(self, uri: str) -> RMQConnectionConfig.Builder:
            """``amqp://user:password@host:port/virtual-host``; instead of all of these."""
            return self._set("uri", uri)

        def set_topology_recovery_enabled(
            self, topology_recovery_enabled: bool
        ) -> RMQConnectionConfig.Builder:
            """Queues are always declared again with a new connection."""
            return self._set("topology_recovery", topology_recovery_enabled)

        def set_requested_heartbeat(self, requested_heartbeat: int) -> RMQConnectionConfig.Builder:
            """Seconds between signs of life."""
            return self._set("requested_heartbeat", requested_heartbeat)

        def set_requested_frame_max(self, requested_frame_max: int) -> RMQConnectionConfig.Builder:
            """How many bytes a frame may have."""
            return self._set("requested_frame_max", requested_frame_max)

        def set_requested_channel_max(self, requested_channel_max: int) -> RMQConnectionConfig.Builder:
            """How many channels a connection may have."""
            return self._set("requested_channel_max", requested_channel_max)

        def set_network_recovery_interval(
            self, network_recovery_interval: int
        ) -> RMQConnectionConfig.Builder:
            """How long to wait before a lost connection is made again, at first."""
            return self._set("network_recovery_interval", network_recovery_interval)

        def set_connection_timeout(self, connection_timeout: int) -> RMQConnectionConfig.Builder:
            """How long connecting may take."""
            return self._set("connection_timeout", connection_timeout)

        def set_automatic_recovery(self, automatic_recovery: bool) -> RMQConnectionConfig.Builder:
            """Whether lost connections are made again; otherwise the job is restarted by its strategy."""
            return self._set("automatic_recovery", automatic_recovery)

        def set_prefetch_count(self, prefetch_count: int) -> RMQConnectionConfig.Builder:
            """So many messages may wait for their checkpoint; RabbitMQ sends no more before it."""
            return self._set("prefetch_count", prefetch_count)

        def build(self) -> RMQConnectionConfig:
            """The settings; raises when there is neither host nor URI."""
            return replace(RMQConnectionConfig(host=""), **{"host": None, **self._settings})
