"""What can be left out of the random programs."""

from __future__ import annotations

LEFT_OUT = {
    "racing windows": "windows that several threads start and stop at the same time",
    "forks": "forked processes",
}
"""What ``--without`` takes, and what is not tried or not compared then."""
