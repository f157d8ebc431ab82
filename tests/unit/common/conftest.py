from hypothesis import HealthCheck, settings

# No deadline and no database: test machines are shared, and a failing example prints its own reproduction.
settings.register_profile(
    "firesteel", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("firesteel")
