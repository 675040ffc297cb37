"""How long operations take.

Owns Google's usual times [facts google-cloud.md §1.8: estimates, for pacing only] and their jitter.
`pace` 1 takes these times, 0 none at all, a fraction the same share of each.
"""

from __future__ import annotations

import random

SECONDS: dict[str, tuple[float, float]] = {
    "networks.insert": (10, 30),
    "networks.patch": (5, 10),
    "networks.delete": (10, 40),
    "subnetworks.insert": (10, 20),
    "subnetworks.delete": (10, 20),
    "firewalls.insert": (8, 12),
    "firewalls.delete": (8, 12),
    "resourcePolicies.insert": (2, 10),
    "resourcePolicies.delete": (2, 10),
    "services.enable": (20, 60),
    "clusters.create": (300, 600),
    "clusters.delete": (180, 480),
    "clusters.upgrade": (300, 1200),
    "clusters.update": (30, 120),
}
"""Least and most seconds of an operation at Google."""
OTHER_SECONDS = (5.0, 10.0)
"""The range for operations that the facts sheet does not list."""


def duration(action: str, target: str, pace: float, seed: int) -> float:
    """Return the seconds that an operation takes; the same for the same action, target and seed."""
    if pace <= 0:
        return 0.0
    low, high = SECONDS.get(action, OTHER_SECONDS)
    middle = (high - low) / 4
    # Durations bunch around the middle of the range: a benchmark shall not hang on one outlier.
    spread = random.Random(f"{seed}/{action}/{target}").uniform(-middle, middle)  # noqa: S311
    return pace * ((low + high) / 2 + spread)
