"""What a process sent over its connections while it was recorded, as its metadata says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from opscope.trace.partition import Partition

SENT = "sent"


@dataclass(frozen=True)
class Sent:
    """What the kernel counted of sending, over the connections that carried most.

    Attributes:
        arrived_bytes: that arrived.
        sending_ns: how long there was something to send, and room for it where it went; of several
            connections the sum.
    """

    arrived_bytes: int = 0
    sending_ns: int = 0

    def __sub__(self, earlier: Sent) -> Sent:
        """What was sent since."""
        return Sent(
            self.arrived_bytes - earlier.arrived_bytes, self.sending_ns - earlier.sending_ns
        )

    def __add__(self, other: Sent) -> Sent:
        """Both."""
        return Sent(self.arrived_bytes + other.arrived_bytes, self.sending_ns + other.sending_ns)

    def as_dict(self) -> dict[str, int]:
        """What JSON can hold."""
        return asdict(self)


def read_sent(metadata: Mapping[str, Any]) -> Sent | None:
    """None where it was not counted, or makes no sense."""
    known = metadata.get(SENT)
    if not isinstance(known, dict):
        return None
    arrived, sending = known.get("arrived_bytes"), known.get("sending_ns")
    if not (isinstance(arrived, int) and isinstance(sending, int)) or min(arrived, sending) < 0:
        return None
    return Sent(arrived, sending)


def known_sent(metadata: Mapping[Partition, Mapping[str, Any]]) -> dict[Partition, Sent]:
    """Of those processes of which it is known."""
    each = {part: read_sent(about) for part, about in metadata.items()}
    return {part: sent for part, sent in each.items() if sent is not None}
