"""What can be left out of the random programs, because it is known to go wrong or takes long."""

from __future__ import annotations

LEFT_OUT = {
    "early failing modules": "modules that are called with bad arguments while stacks are recorded",
    "memory of threads": "how much memory threads must show that did not start the recording",
    "running calls": "that calls are nested while stacks are recorded",
    "racing windows": "windows that several threads start and stop at the same time",
    "late imports": "modules that are imported while another thread forks",
    "raw threads": "that Python calls are recorded of threads begun without the threading module",
    "forks": "forked processes",
    "interrupted starts": "windows that are started and stopped while signals raise",
    "traces in handlers": "signal handlers that look at traces",
}
"""What ``--without`` takes, and what is not tried or not compared then."""

KNOWN_FAULTS: tuple[str, ...] = tuple(LEFT_OUT)
"""What the tests leave out: it fails, sometimes or always, until it has been repaired."""
