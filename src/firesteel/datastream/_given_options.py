"""Options that come from outside the program, checked before anything is built on them.

A call such as ``env.set_parallelism`` wins over what the client asks for (``firesteel run -p``), that wins over
the configuration the program was given, and that over the configuration file.
"""

from __future__ import annotations

import json
import logging
import os
from typing import Any

from firesteel.common import options
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError, short_repr
from firesteel.datastream._configuration_file import configuration_file, read_options

__all__ = ["CLIENT_VARIABLE", "checked", "client_options", "configured_options"]

_LOG = logging.getLogger(__name__)

#: Environment variable through which a client hands options to a program, as a JSON object.
CLIENT_VARIABLE = "FIRESTEEL_CONFIG"


def client_options() -> Configuration:
    """What the client that started this program asks for."""
    text = os.environ.get(CLIENT_VARIABLE)
    if not text:
        return Configuration()
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise InvalidOptionError(
            f"{CLIENT_VARIABLE} must hold a JSON object of options, got {short_repr(text)}"
        )
    return checked(Configuration.from_dict(values))


def configured_options() -> Configuration:
    """What the configuration file says; nothing when there is none."""
    path = configuration_file()
    if path is None:
        return Configuration()
    configuration = read_options(path)
    try:
        return checked(configuration)
    except InvalidOptionError as error:
        raise InvalidOptionError(f"{path}: {error}") from error


def checked(configuration: Configuration) -> Configuration:
    """A copy without surprises: values nobody understands are refused, and keys of Flink and Firesteel that do not exist.

    Any other key may be the program's own. One that looks like a misspelt option is answered with a warning. Older
    spellings of a key become the present one, so that one of them never hides the other.

    >>> checked(Configuration.from_dict({"pipeline.operator-chaining": "false"})).to_dict()
    {'pipeline.operator-chaining.enabled': 'false'}
    """
    unknown = options.unknown_keys(configuration)
    refused = [_sentence(key, similar) for key, similar in unknown.items() if options.is_own(key)]
    refused += [f"option '{key}': {why}" for key, why in options.refused_options(configuration).items()]
    if refused:
        raise InvalidOptionError("; ".join(refused))
    for key, similar in unknown.items():
        if similar is not None:
            _LOG.warning("%s: nothing reads it, unless the program does", _sentence(key, similar))
    values: dict[str, Any] = {}
    configuration.add_all_to_dict(values)
    by_key: dict[str, Any] = {}
    for key, value in values.items():
        option = options.find_option(key)
        if option is not None:
            option.parse(value)
        present = key if option is None else option.key
        if present == key or present not in values:
            by_key[present] = value
    return Configuration.from_dict(by_key)


def _sentence(key: str, similar: str | None) -> str:
    hint = f"did you mean {similar!r}?" if similar else "docs/operations.md lists all of them"
    return f"unknown option {key!r}; {hint}"
