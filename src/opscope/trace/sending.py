"""Whether the connections of a process took what it sent, as the metadata of its recording says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from opscope.trace.partition import Partition

SENDING = "sending"


@dataclass(frozen=True)
class Sending:
    """What was seen of the connections of a process.

    Attributes:
        looks: how often they were looked at.
        behind: at how many of these looks one of them had something to send that was not sent yet,
            although where it went there was room for it.
    """

    looks: int
    behind: int

    @property
    def share(self) -> float:
        """Of the time, in which something waited for the network."""
        return self.behind / max(self.looks, 1)

    def as_dict(self) -> dict[str, int]:
        """What JSON can hold."""
        return asdict(self)


def read_sending(metadata: Mapping[str, Any]) -> Sending | None:
    """None where nobody looked, or it makes no sense."""
    known = metadata.get(SENDING)
    if not isinstance(known, dict):
        return None
    looks, behind = known.get("looks"), known.get("behind")
    if not (isinstance(looks, int) and isinstance(behind, int) and 0 <= behind <= looks > 0):
        return None
    return Sending(looks, behind)


def known_sending(
    metadata: Mapping[Partition, Mapping[str, Any]],
) -> dict[Partition, Sending]:
    """Of those processes of which it is known."""
    each = {part: read_sending(about) for part, about in metadata.items()}
    return {part: one for part, one in each.items() if one is not None}
