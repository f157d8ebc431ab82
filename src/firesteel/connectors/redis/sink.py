"""Commands to Redis as a sink: in batches at least once, or in transactions with a mark, exactly once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError, JobExecutionError, short_repr
from firesteel.connectors.backoff import Backoff
from firesteel.connectors.batching_sink import BatchClient, BatchingSink
from firesteel.connectors.redis.connection import CHANGED, LOST, check_url, connect, place_of, refused, told
from firesteel.connectors.staging_sink import StagedBatch, StagedClient, StagingSink
from firesteel.contracts.sink import Committer, Sink, SinkContext, SinkWriter

#: A command: its name and its arguments.
Command = Sequence[Any]
#: How long a mark is kept: so long a job may be down and still recognise what it has written.
MARK_SECONDS = 7 * 24 * 3600
MARK = "firesteel:batch:"


class RedisSink(Sink[Any]):
    """Writes records by the commands that ``commands`` makes of each, such as ``[("HSET", key, field, value)]``.

    At least once, in pipelines of ``batch_size``: commands that set something (HSET, SET, SADD, ZADD, or XADD with an id of
    one's own) then do the same when they come again. With ``exactly_once`` the commands of a checkpoint are kept in it and
    done when it is complete, in one MULTI/EXEC with a mark, so that INCR and XADD count once, too. Marks are keys named
    ``firesteel:batch:...`` that expire after ``mark_seconds``.
    """

    def __init__(
        self,
        url: str,
        commands: Callable[[Any], Sequence[Command]],
        *,
        exactly_once: bool = False,
        batch_size: int = 500,
        linger: float = 1.0,
        mark_seconds: int = MARK_SECONDS,
        backoff: Backoff | None = None,
    ) -> None:
        if mark_seconds < 1:
            raise InvalidArgumentError(
                f"a mark is kept for at least a second, got mark_seconds={mark_seconds}"
            )
        check_url(url)
        self._sink: Sink[Any] = (
            _ExactlyOnce(url, commands, mark_seconds, backoff or Backoff())
            if exactly_once
            else _AtLeastOnce(url, commands, batch_size, linger, backoff or Backoff())
        )

    @classmethod
    def hash_set(
        cls,
        url: str,
        key_of: Callable[[Any], str],
        fields_of: Callable[[Any], Mapping[str, Any]],
        **options: Any,
    ) -> RedisSink:
        """Every record sets fields of a hash: written twice it is written once."""

        def commands(record: Any) -> list[Command]:
            pairs = [part for pair in fields_of(record).items() for part in pair]
            return [("HSET", key_of(record), *pairs)]

        return cls(url, commands, **options)

    @classmethod
    def stream(
        cls, url: str, stream: str, fields_of: Callable[[Any], Mapping[str, Any]], **options: Any
    ) -> RedisSink:
        """Every record is added to a stream."""

        def commands(record: Any) -> list[Command]:
            pairs = [part for pair in fields_of(record).items() for part in pair]
            return [("XADD", stream, "*", *pairs)]

        return cls(url, commands, **options)

    @override
    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return self._sink.create_writer(context)

    @override
    def create_committer(self, context: SinkContext) -> Committer | None:
        return self._sink.create_committer(context)


class _AtLeastOnce(BatchingSink[Any]):
    retry_on = LOST

    def __init__(
        self, url: str, commands: Callable[[Any], Any], batch_size: int, linger: float, backoff: Backoff
    ) -> None:
        self.url = url
        self.commands = commands
        self.batch_size = batch_size
        self.linger = linger
        self.backoff = backoff

    @override
    def describe(self) -> str:
        return f"writing to {place_of(self.url)}"

    @override
    def connect(self, context: SinkContext) -> BatchClient[Any]:
        return _Pipelines(self.url, self.commands)


class _Pipelines(BatchClient[Any]):
    def __init__(self, url: str, commands: Callable[[Any], Any]) -> None:
        self._url = url
        self._commands = commands
        self._redis = connect(url)

    @override
    def write_batch(self, batch: list[Any]) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        done = _add(pipeline, batch, self._commands)
        with told(self._url, "writing"):
            _check_answers(self._url, done, pipeline.execute(raise_on_error=False))

    @override
    def close(self) -> None:
        self._redis.close()


class _ExactlyOnce(StagingSink[Any]):
    retry_on = LOST

    def __init__(self, url: str, commands: Callable[[Any], Any], mark_seconds: int, backoff: Backoff) -> None:
        self.url = url
        self.commands = commands
        self.mark_seconds = mark_seconds
        self.backoff = backoff

    @override
    def describe(self) -> str:
        return f"writing to {place_of(self.url)}"

    @override
    def connect(self, context: SinkContext) -> StagedClient[Any]:
        return _Transactions(self)


class _Transactions(StagedClient[Any]):
    def __init__(self, sink: _ExactlyOnce) -> None:
        self._sink = sink
        self._redis: Any = connect(sink.url)

    @override
    def write_once(self, batch: StagedBatch) -> None:
        """WATCH and MULTI: of two that come with the same batch, one finds that the mark has changed."""
        mark = f"{MARK}{batch.id}"
        with told(self._sink.url, "writing"), self._redis.pipeline(transaction=True) as pipeline:
            try:
                pipeline.watch(mark)
                if self._is_written(mark, pipeline.get(mark)):
                    return None
                pipeline.multi()
                done = _add(pipeline, batch.records, self._sink.commands)
                pipeline.set(mark, "written", ex=self._sink.mark_seconds)
                answers = pipeline.execute(raise_on_error=False)
            except CHANGED:
                return self.write_once(batch)
        self._check(mark, done, answers)
        return None

    def _is_written(self, mark: str, state: Any) -> bool:
        if state is not None and state != b"written":
            raise JobExecutionError(
                f"a batch of records was written to {place_of(self._sink.url)} in part, some time ago: {state.decode()}; "
                f"Redis does not undo the rest of a transaction. Repair what it holds, then delete the key {mark} to have the "
                "batch written again, or set it to 'written' to continue without"
            )
        return state is not None

    def _check(self, mark: str, done: list[Command], answers: list[Any]) -> None:
        """Redis does the other commands of a transaction when one is refused: this must not look like success later."""
        try:
            _check_answers(self._sink.url, done, answers)
        except JobExecutionError as error:
            self._redis.set(mark, str(error))
            raise

    @override
    def close(self) -> None:
        self._redis.close()


def _add(pipeline: Any, records: list[Any], commands: Callable[[Any], Any]) -> list[Command]:
    done = [command for record in records for command in commands(record)]
    for command in done:
        pipeline.execute_command(*command)
    return done


def _check_answers(url: str, done: list[Command], answers: list[Any]) -> None:
    for command, answer in zip(done, answers, strict=False):
        if isinstance(answer, Exception):
            raise refused(url, f"the command {short_repr(command)}", answer, "") from answer
