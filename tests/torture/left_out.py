"""What can be left out of the random programs, because it is known to go wrong or takes long."""

from __future__ import annotations

LEFT_OUT = {
    "racing windows": "windows that several threads start and stop at the same time",
    "forks": "forked processes",
}
"""What ``--without`` takes, and what is not tried or not compared then."""

KNOWN_FAULTS: tuple[str, ...] = tuple(LEFT_OUT)
"""What the tests leave out: it fails, sometimes or always, until it has been repaired."""
