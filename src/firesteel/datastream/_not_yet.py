"""What the API names and the engine does not do yet: refused with a sentence where the program asks for it.

Nothing is accepted and then ignored, except hints: what changes no result. A hint that people would miss is answered with
a warning. When a feature arrives, its entry here goes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from firesteel.common import options
from firesteel.common.config_options import ConfigOption
from firesteel.common.configuration import Configuration
from firesteel.common.errors import MissingFeatureError

_LOG = logging.getLogger(__name__)
#: What this process has been warned of: programs may execute many jobs.
_SAID: set[str] = set()

__all__ = ["REFUSED", "not_yet", "refuse_unsupported_options"]


def not_yet(what: str, feature: str, instead: str = "") -> MissingFeatureError:
    """The error that refuses ``what``, because ``feature`` is missing; ``instead`` says what to do."""
    remedy = f"; {instead}" if instead else ""
    return MissingFeatureError(f"{what}: {feature} not part of this version of Firesteel yet{remedy}")


#: Options that ask for what is not there: when, what is missing, and what there is instead.
REFUSED: tuple[tuple[ConfigOption[Any], Callable[[Any], bool], str, str], ...] = (
    (
        options.SAVEPOINT_CLAIM_MODE,
        lambda mode: mode == "CLAIM",
        "jobs that own what they start from are",
        "it stays yours with NO_CLAIM, and you delete it",
    ),
    (options.PYTHON_PROFILE, bool, "profiling is", "run the function under Python's cProfile in a test"),
)


def refuse_unsupported_options(configuration: Configuration) -> None:
    """Refuse options that ask for features that are not there yet; say once of those that have no effect."""
    for key, instead in options.options_without_effect(configuration).items():
        if key not in _SAID:
            _SAID.add(key)
            _LOG.warning("option '%s' has no effect: %s", key, instead)
    if configuration.get(options.CHECKPOINTING_UNALIGNED):
        _LOG.warning(
            "option '%s': barriers that overtake records are not part of this version of Firesteel yet; checkpoints are "
            "aligned, with the same results, and under full load they take as long as the records in the buffers",
            options.CHECKPOINTING_UNALIGNED.key,
        )
    for option, is_asked_for, feature, instead in REFUSED:
        if is_asked_for(configuration.get(option)):
            raise not_yet(f"option '{option.key}'", feature, instead)
