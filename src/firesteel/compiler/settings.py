"""What the compiler reads from the configuration, once, typed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from firesteel.common import options
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.plan.key_groups import UPPER_BOUND


@dataclass(frozen=True, slots=True)
class CompilerSettings:
    """The values that hold for steps that choose none of their own."""

    parallelism: int
    max_parallelism: int | None = None
    chaining: bool = True
    chain_different_max_parallelism: bool = True
    buffer_timeout_ms: int = 100
    runtime_mode: str = "STREAMING"
    auto_generate_uids: bool = True
    job_parameters: Mapping[str, str] = field(default_factory=dict)


def read_settings(configuration: Configuration) -> CompilerSettings:
    """Read and check the options that decide how a job is compiled."""
    get = configuration.get
    job_parameters = get(options.GLOBAL_JOB_PARAMETERS)
    return CompilerSettings(
        parallelism=_default_parallelism(get(options.PARALLELISM_DEFAULT)),
        max_parallelism=_max_parallelism(get(options.MAX_PARALLELISM)),
        chaining=get(options.OPERATOR_CHAINING),
        chain_different_max_parallelism=get(options.CHAIN_DIFFERENT_MAX_PARALLELISM),
        buffer_timeout_ms=_buffer_timeout(configuration),
        runtime_mode=get(options.RUNTIME_MODE),
        auto_generate_uids=get(options.AUTO_GENERATE_UIDS),
        job_parameters={} if job_parameters is None else job_parameters,
    )


def available_cores() -> int:
    """The processors this process may use: a container often has fewer than the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS has no affinity


def _default_parallelism(configured: int | None) -> int:
    if configured is None or configured == -1:  # -1: Flink's ExecutionConfig.PARALLELISM_DEFAULT
        return available_cores()
    if configured < 1:
        raise InvalidOptionError(
            f"option '{options.PARALLELISM_DEFAULT.key}': expected at least 1, got {configured}; "
            "leave it out to use one subtask per processor"
        )
    return configured


def _max_parallelism(configured: int) -> int | None:
    if configured == -1:
        return None
    if not 1 <= configured <= UPPER_BOUND:
        raise InvalidOptionError(
            f"option '{options.MAX_PARALLELISM.key}': expected 1 to {UPPER_BOUND}, got {configured}; "
            "leave it out to have it derived from the parallelism"
        )
    return configured


def _buffer_timeout(configuration: Configuration) -> int:
    if not configuration.get(options.BUFFER_TIMEOUT_ENABLED):
        return -1
    return configuration.get(options.BUFFER_TIMEOUT).to_millis()
