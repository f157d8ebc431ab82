"""What ``metrics.reporters`` and ``metrics.reporter.<name>.*`` say: which reporters to start, and what each is told."""

from __future__ import annotations

import fnmatch
import importlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from firesteel.common._option_types import parse_duration
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.common.options import METRICS_REPORTERS, METRICS_SCOPE_DELIMITER, REPORTER_PREFIX
from firesteel.metrics._reported import MetricReporter, ReportedMetric

__all__ = ["MetricFilter", "ReporterSettings", "read_reporters"]

_LOG = logging.getLogger("firesteel.metrics")

_HERE = "firesteel.metrics._reporters."
#: By the name of Flink's class, without its package and its ending.
_OF_FLINK = {
    "PrometheusReporter": "prometheus:PrometheusReporter",
    "PrometheusPushGatewayReporter": "prometheus:PushGatewayReporter",
    "StatsDReporter": "statsd:StatsDReporter",
    "Slf4jReporter": "logged:LoggingReporter",
    "OpenTelemetryMetricReporter": "opentelemetry:OpenTelemetryReporter",
}
_FLINK_PACKAGE = "org.apache.flink."
_CLASS_KEYS = ("factory.class", "class")
_DEFAULT_INTERVAL = "10 s"


@dataclass(frozen=True, slots=True)
class ReporterSettings:
    """One reporter; ``own`` are all its options, for itself."""

    name: str
    reporter_class: type[MetricReporter]
    interval_seconds: float
    delimiter: str
    filter: MetricFilter
    excluded_variables: frozenset[str]
    additional_variables: Mapping[str, str]
    own: Mapping[str, str]

    @property
    def identity(self) -> tuple[object, ...]:
        """What two jobs must have in common to share a reporter."""
        return self.name, self.delimiter, tuple(sorted(self.own.items()))


def read_reporters(configuration: Configuration) -> list[ReporterSettings]:
    """The reporters that a job wants, checked; those of Flink that are not there are answered with a warning."""
    options: dict[str, dict[str, str]] = {}
    for key in sorted(configuration.key_set()):
        if key.startswith(REPORTER_PREFIX):
            name, _, own = key.removeprefix(REPORTER_PREFIX).partition(".")
            options.setdefault(name, {})[own] = configuration.get_string(key, "")
    wanted = configuration.get(METRICS_REPORTERS)
    if wanted is None:
        wanted = [name for name, own in options.items() if any(key in own for key in _CLASS_KEYS)]
    delimiter = configuration.get(METRICS_SCOPE_DELIMITER)
    reporters = [_read(name, options.get(name, {}), delimiter) for name in wanted]
    return [settings for settings in reporters if settings is not None]


def _read(name: str, own: Mapping[str, str], delimiter: str) -> ReporterSettings | None:
    key = next((key for key in _CLASS_KEYS if key in own), None)
    if key is None:
        raise InvalidOptionError(
            f"option '{METRICS_REPORTERS.key}': reporter {name!r} has no '{REPORTER_PREFIX}{name}.factory.class', which says "
            "what it is"
        )
    class_name = _class_of(own[key])
    if class_name is None:
        _LOG.warning(
            "option '%s%s.%s': there is no counterpart of %s, so nothing is reported there; there are: %s, and classes "
            "of one's own as 'module:Class'", REPORTER_PREFIX, name, key, own[key], ", ".join(_OF_FLINK),
        )  # fmt: skip
        return None
    return ReporterSettings(
        name,
        _load(class_name, f"option '{REPORTER_PREFIX}{name}.{key}'"),
        _interval(name, own),
        own.get("scope.delimiter", delimiter),
        MetricFilter.of(name, own),
        frozenset(_listed(own.get("scope.variables.excludes", ""))),
        dict(_pair(name, pair) for pair in _listed(own.get("scope.variables.additional", ""), ",")),
        dict(own),
    )


def _class_of(given: str) -> str | None:
    """``module:Class`` for one of ours or of the user's; None for one of Flink's that is not there."""
    if not given.startswith(_FLINK_PACKAGE):
        return given
    known = _OF_FLINK.get(given.rpartition(".")[2].removesuffix("Factory"))
    return None if known is None else f"{_HERE}{known}"


def _interval(name: str, own: Mapping[str, str]) -> float:
    text = own.get("interval", _DEFAULT_INTERVAL)
    try:
        seconds = parse_duration(text).to_millis() / 1000
    except ValueError as error:
        raise InvalidOptionError(f"option '{REPORTER_PREFIX}{name}.interval': {error}") from error
    if seconds <= 0:
        raise InvalidOptionError(
            f"option '{REPORTER_PREFIX}{name}.interval': expected more than 0, got {text!r}"
        )
    return seconds


def _listed(text: str, separator: str = ";") -> list[str]:
    return [part.strip() for part in text.split(separator) if part.strip()]


def _pair(name: str, text: str) -> tuple[str, str]:
    key, colon, value = text.partition(":")
    if not colon:
        raise InvalidOptionError(
            f"option '{REPORTER_PREFIX}{name}.scope.variables.additional': expected 'key:value', got {text!r}"
        )
    return key.strip(), value.strip()


@dataclass(frozen=True, slots=True)
class _Rule:
    """Metrics by patterns: logical scope, names, kinds."""

    scope: str
    names: tuple[str, ...]
    kinds: tuple[str, ...]

    def has(self, metric: ReportedMetric) -> bool:
        kind = "histogram" if metric.kind.value == "distribution" else metric.kind.value
        return (
            _matches(".".join(metric.logical_scope), self.scope)
            and any(_matches(metric.name, name) for name in self.names)
            and any(_matches(kind, each) for each in self.kinds)
        )


def _matches(text: str, pattern: str) -> bool:
    # Most filters let everything pass, and they are asked for every metric of every report.
    return pattern == "*" or fnmatch.fnmatchcase(text, pattern)


@dataclass(frozen=True, slots=True)
class MetricFilter:
    """Which metrics a reporter gets: those that a rule includes and no rule excludes."""

    includes: tuple[_Rule, ...]
    excludes: tuple[_Rule, ...]

    @classmethod
    def of(cls, name: str, own: Mapping[str, str]) -> MetricFilter:
        """What ``filter.includes`` and ``filter.excludes`` say: ``scope:name,name:kind,kind``, the end of which may be missing."""

        def rules(key: str, default: str) -> tuple[_Rule, ...]:
            return tuple(
                _rule(f"{REPORTER_PREFIX}{name}.{key}", text) for text in _listed(own.get(key, default))
            )

        return cls(rules("filter.includes", "*:*:*"), rules("filter.excludes", ""))

    def passes(self, metric: ReportedMetric) -> bool:
        """Whether the reporter gets a metric."""
        return any(rule.has(metric) for rule in self.includes) and not any(
            rule.has(metric) for rule in self.excludes
        )


def _rule(key: str, text: str) -> _Rule:
    parts = text.split(":")
    if len(parts) > 3:
        raise InvalidOptionError(f"option '{key}': expected 'scope:names:kinds', got {text!r}")
    scope, names, kinds = (*parts, *["*"] * (3 - len(parts)))
    return _Rule(scope, tuple(_listed(names, ",")), tuple(_listed(kinds, ",")))


def _load(name: str, option: str) -> type[MetricReporter]:
    module_name, colon, attribute = name.partition(":")
    if not colon:
        module_name, _, attribute = name.rpartition(".")
    try:
        reporter_class = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidOptionError(
            f"{option}: expected a class of Flink's or 'module:Class' of your own, got {name!r}: {error}"
        ) from error
    if not (isinstance(reporter_class, type) and issubclass(reporter_class, MetricReporter)):
        raise InvalidOptionError(f"{option}: {name!r} is no firesteel.metrics.MetricReporter")
    return reporter_class
