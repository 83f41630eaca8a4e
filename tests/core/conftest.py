"""Rules are tried with many values, and are right or wrong however long the machine takes to say
so."""

from hypothesis import HealthCheck, settings

settings.register_profile("holdfast", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("holdfast")
