"""Whether the connections of a process took what it sent, as the metadata of its recording says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opscope.trace.partition import Partition

SENDING = "sending"


@dataclass(frozen=True)
class Sending:
    """What was seen of the connections of a process.

    Attributes:
        looks: how often they were looked at, while there were any.
        behind: at how many of these looks one of them had something to send that was not sent yet,
            although where it went there was room for it.
        looked_ns: how long there were any.
    """

    looks: int
    behind: int
    looked_ns: float

    @property
    def share(self) -> float:
        """Of that time, in which something waited for the network."""
        return self.behind / max(self.looks, 1)


def sending_metadata(looks: int, behind: int, all_looks: int) -> dict[str, int]:
    """As metadata has it; empty where there was no connection.

    Args:
        looks: as of ``Sending``.
        behind: likewise.
        all_looks: of the sampler, through the whole recording.
    """
    return {"looks": looks, "behind": behind, "all_looks": all_looks} if looks else {}


def read_sending(metadata: Mapping[str, Any]) -> Sending | None:
    """None where nobody looked, or it makes no sense."""
    known = metadata.get(SENDING)
    if not isinstance(known, dict):
        return None
    looks, behind, all_looks = (known.get(key) for key in ("looks", "behind", "all_looks"))
    if not (isinstance(looks, int) and isinstance(behind, int) and isinstance(all_looks, int)):
        return None
    if not 0 <= behind <= looks <= all_looks or not looks:
        return None
    took_ns = int(metadata.get("end_ns", 0)) - int(metadata.get("start_ns", 0))
    return Sending(looks, behind, max(took_ns, 0) * looks / all_looks)


def known_sending(
    metadata: Mapping[Partition, Mapping[str, Any]],
) -> dict[Partition, Sending]:
    """Of those processes of which it is known."""
    each = {part: read_sending(about) for part, about in metadata.items()}
    return {part: one for part, one in each.items() if one is not None}
