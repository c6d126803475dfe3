"""Fixtures and settings shared by every test."""

from hypothesis import HealthCheck, settings

# How long an example takes says something about the machine, not about the code.
settings.register_profile("opscope", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("opscope")
