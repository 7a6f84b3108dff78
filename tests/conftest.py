"""How hypothesis looks for counterexamples: anew each time for people, the same ones each time in CI."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A busy machine is no failure.
_PATIENT = [HealthCheck.too_slow]
settings.register_profile("people", deadline=None, suppress_health_check=_PATIENT)
settings.register_profile("in_ci", deadline=None, suppress_health_check=_PATIENT, derandomize=True)
settings.load_profile("in_ci" if os.environ.get("CI") else "people")
