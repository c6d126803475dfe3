"""What Python has to know of a kind of devices to record what they do.

The native core has the other half: a source that loads the vendor's library and reads its records
(``native/gpu/device_source.h``). CUDA's is ``cuda_devices``; another kind is a class and a source.
"""

from __future__ import annotations

from typing import Any, Protocol


class DeviceKind(Protocol):
    """A kind of devices, and the library that reports what they do."""

    library: str
    """What the library is called."""

    def candidates(self) -> list[str]:
        """Paths and names that the library may have, best first."""

    def advice(self) -> str:
        """What somebody can do whose library is not found: a sentence."""

    def may_share(self) -> bool:
        """Whether what else may be attached to the library is known to collect nothing now."""

    def tool_around(self) -> str:
        """A tool that looks at this process and uses the library; empty if none is known."""

    def are_lost(self) -> bool:
        """Whether this process had them from its parent, which forked it: it cannot use them."""

    def wait(self) -> None:
        """Wait until what was launched has run, unless that would harm the program."""

    def properties(self) -> list[dict[str, Any]]:
        """The devices of the process, under the names that Kineto uses; empty if there are none."""
