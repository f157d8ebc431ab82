"""What the API names and the engine does not do yet: refused with a sentence where the program asks for it.

Nothing is accepted and then ignored, except hints: what changes no result. A hint that people would miss is answered with
a warning. When a feature arrives, its entry here goes.
"""

from __future__ import annotations

import logging

from firesteel.common import options
from firesteel.common.configuration import Configuration

_LOG = logging.getLogger(__name__)

__all__ = ["not_yet", "refuse_unsupported_options"]


def not_yet(what: str, feature: str) -> NotImplementedError:
    """The error that refuses ``what``, because ``feature`` is missing."""
    return NotImplementedError(f"{what}: {feature} not part of this version of Firesteel yet")


def refuse_unsupported_options(configuration: Configuration) -> None:
    """Refuse options that ask for features that are not there yet."""
    if configuration.get(options.CHECKPOINTING_UNALIGNED):
        _LOG.warning(
            "option '%s': barriers that overtake records are not part of this version of Firesteel yet; checkpoints are "
            "aligned, with the same results, and under full load they take as long as the records in the buffers",
            options.CHECKPOINTING_UNALIGNED.key,
        )
    if configuration.get(options.SAVEPOINT_CLAIM_MODE) == "CLAIM":
        raise not_yet(
            f"option '{options.SAVEPOINT_CLAIM_MODE.key}'", "jobs that own what they start from are"
        )
    if configuration.get(options.PYTHON_PROFILE):
        raise not_yet(f"option '{options.PYTHON_PROFILE.key}'", "profiling is")
    if configuration.get(options.LATENCY_INTERVAL).to_millis() > 0:
        raise not_yet(f"option '{options.LATENCY_INTERVAL.key}'", "latency markers are")
    if configuration.get(options.PIPELINE_CLASSPATHS):
        raise not_yet(f"option '{options.PIPELINE_CLASSPATHS.key}'", "class paths are (jar files are)")
