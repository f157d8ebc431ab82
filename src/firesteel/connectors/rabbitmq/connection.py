"""Connections to RabbitMQ with a declared queue, and what is said when there is none."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from firesteel.common.errors import JobExecutionError
from firesteel.connectors.extras import missing_client
from firesteel.connectors.rabbitmq.config import RMQConnectionConfig

try:
    import pika
    from pika import exceptions
except ImportError as error:  # pragma: no cover - the tests have it
    raise missing_client("RabbitMQ", "pika", "rabbitmq") from error


# pika logs every failed try several times, with tracebacks; what matters is raised or logged by the bases.
if logging.getLogger("pika").level == logging.NOTSET:
    logging.getLogger("pika").setLevel(logging.CRITICAL)


class Connection:
    """A connection with one channel and one durable queue, as Flink declares it."""

    def __init__(self, config: RMQConnectionConfig, queue: str) -> None:
        self._config = config
        self._queue = queue
        with self.told():
            self.connection: Any = pika.BlockingConnection(_parameters(config))
        try:
            with self.told():
                self.channel: Any = self.connection.channel()
                self.channel.queue_declare(queue, durable=True)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def told(self) -> Iterator[None]:
        """What RabbitMQ refuses becomes a sentence, and a lost connection a ConnectionError."""
        try:
            yield
        except (exceptions.ProbableAuthenticationError, exceptions.AuthenticationError) as error:
            raise self._refused(error, "check user name and password") from error
        except exceptions.ProbableAccessDeniedError as error:
            raise self._refused(error, "check the virtual host, and the user's rights in it") from error
        except exceptions.ChannelClosedByBroker as error:
            raise self._refused(error, _REMEDIES.get(error.reply_code, "")) from error
        except exceptions.AMQPError as error:
            raise ConnectionError(f"{self._config.place}: {_text(error)}") from error
        except OSError as error:
            raise ConnectionError(f"{self._config.place}: {error}") from error

    def _refused(self, error: Exception, remedy: str) -> JobExecutionError:
        sentence = f"{self._config.place} refuses the queue {self._queue!r}: {_text(error)}"
        return JobExecutionError(f"{sentence}; {remedy}" if remedy else sentence)

    def close(self) -> None:
        """Close it; what was not acknowledged goes back to the queue."""
        if self.connection.is_open:
            try:
                self.connection.close()
            except exceptions.AMQPError:  # it has been lost meanwhile
                return


_REMEDIES = {
    403: "give the user the rights to configure, read and write it",
    404: "it was deleted",
    406: "it exists with other properties: Firesteel, like Flink, declares queues as durable, neither exclusive nor auto-delete",
}


def durable() -> Any:
    """The properties of a message that survives a restart of RabbitMQ."""
    return pika.BasicProperties(delivery_mode=2)


def _parameters(config: RMQConnectionConfig) -> Any:
    if config.uri is not None:
        parameters: Any = pika.URLParameters(config.uri)
    else:
        credentials = pika.PlainCredentials(config.user_name, config.password)
        parameters = pika.ConnectionParameters(
            config.host or "", config.port, config.virtual_host, credentials
        )
    for name, value in (
        ("heartbeat", config.requested_heartbeat),
        ("frame_max", config.requested_frame_max),
        ("channel_max", config.requested_channel_max),
    ):
        if value is not None:
            setattr(parameters, name, value)
    if config.connection_timeout is not None:
        parameters.socket_timeout = config.connection_timeout / 1000
    return parameters


def _text(error: Exception) -> str:
    """Pika's errors are often empty, and say in their arguments what they are about."""
    code = getattr(error, "reply_code", None)
    if code is not None:
        return f"{code} {getattr(error, 'reply_text', '')}"
    inner = [argument for argument in error.args if isinstance(argument, Exception)]
    return _text(inner[0]) if inner else str(error) or repr(error)
