"""How long the property tests search: see `firesteel_support.effort`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from firesteel_support.effort import EFFORT, cases

settings.register_profile(
    "ours",
    max_examples=cases(60, 3_000),
    deadline=None,
    derandomize=EFFORT != "long",  # the same examples every time: a red run is never luck
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("ours")
