"""What is said alike of collectives wherever they are found."""

from __future__ import annotations

NONE = -1
"""In place of a time, number or group that is not known."""

POINT_TO_POINT = ("send", "recv")
"""Messages from one rank to another, which no other takes part in."""

TO_ALL = ("broadcast", "scatter")
FROM_ALL = ("reduce", "gather")
UNEVEN = ("all_to_all",)
"""Some ranks may get nothing from others, and need not wait for them."""
