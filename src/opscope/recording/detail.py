"""Detail stretches: parts of a recording, a few steps each, with more data than the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from opscope.columns.metadata_kinds import DETAIL
from opscope.recording.decoded import Decoded
from opscope.recording.listeners import Listener


class DetailStretches(Listener):
    """Begin, end and number of steps of each detail stretch.

    The state has the options outside stretches, and [begin, end, steps] of each stretch, Unix
    nanoseconds. None means: begin or end of the recording; steps not counted. Without stretches,
    the state is None.
    """

    _is_streamed = False

    def describe(self, throughout: Mapping[str, Any], is_streamed: bool) -> None:
        """Prepare for stretches; ``throughout`` are the options outside them."""
        self._known = {"throughout": throughout, "stretches": []}
        self._is_streamed = is_streamed

    def begins(self, time_ns: int | None) -> None:
        """Note the begin of a stretch; it lasts until :meth:`ends`."""
        self._known["stretches"].append([time_ns, None, None])
        self._note()

    def ends(self, time_ns: int, steps: int) -> None:
        """Note the end of the current stretch, and the steps in it."""
        self._known["stretches"][-1][1:] = [time_ns, steps]
        self._note()

    def _note(self) -> None:
        """Write the stretches to the stream, because the process may be killed."""
        if self._is_streamed:
            self.write_note(self._known)

    def added_to(self, decoded: Decoded) -> Decoded:
        """Set ``detail``."""
        return replace(decoded, detail=self._known)


def detail_metadata(decoded: Decoded, options: Any) -> dict[str, Any]:
    """Metadata of the detail stretches; ``options`` are the options inside them."""
    known = decoded.detail
    if known is None:
        return {"options": asdict(options)}
    begin_ns, end_ns = decoded.account["start_ns"], decoded.account["end_ns"]
    stretches = [
        {
            "start_ns": begin_ns if began is None else began,
            "end_ns": end_ns if ended is None else ended,
            "steps": steps,
        }
        for began, ended, steps in known["stretches"]
    ]
    return {
        "options": dict(known["throughout"]),
        DETAIL: {"options": asdict(options), "stretches": stretches},
    }
