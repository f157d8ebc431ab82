"""What a request is refused with: a status code and sentences for whoever has sent it."""

from __future__ import annotations

__all__ = [
    "Conflict",
    "Forbidden",
    "Malformed",
    "NotFound",
    "NotThere",
    "RestError",
    "TooLarge",
    "TooLate",
    "Unauthorized",
    "Unavailable",
]


class RestError(Exception):
    """Becomes the answer ``{"errors": [...]}`` with this status code."""

    status = 500

    def __init__(self, *sentences: str) -> None:
        super().__init__(*sentences)
        self.sentences = sentences


class Malformed(RestError):
    """Something in the request cannot be read, or means nothing."""

    status = 400


class Unauthorized(RestError):
    """Nobody knows who asks."""

    status = 401


class Forbidden(RestError):
    """Somebody asks for what his role does not allow, or from where he has no say."""

    status = 403


class NotFound(RestError):
    """There is no such job, vertex, checkpoint or operation."""

    status = 404


class Conflict(RestError):
    """The job is in a state in which that cannot be done."""

    status = 409


class TooLarge(RestError):
    """The body has more bytes than anybody needs."""

    status = 413


class Unavailable(RestError):
    """Nobody can answer now, and later somebody can."""

    status = 503


class TooLate(RestError):
    """A task has not answered in time."""

    status = 504


class NotThere(RestError):
    """Flink has it, and Firesteel does not, or not yet."""

    status = 501
