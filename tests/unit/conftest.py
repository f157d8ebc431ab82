"""What holds for all unit tests."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# A shell that starts the tests in the background has them ignore SIGINT, and whatever they start, too. The tests
# of Ctrl-C would then wait for ever for an interrupt that cannot come.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # so does nohup with SIGHUP

# No deadline and no database: test machines are shared, and a failing example prints its own reproduction.
settings.register_profile("unit", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unit")
