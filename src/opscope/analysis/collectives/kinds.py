"""What is said alike of collectives wherever they are found."""

from __future__ import annotations

NONE = -1
"""In place of a time, number or group that is not known."""

POINT_TO_POINT = ("send", "recv")
"""Messages from one rank to another, which no other takes part in."""
