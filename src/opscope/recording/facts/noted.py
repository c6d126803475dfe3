"""What only the recorded process knows, noted in its stream as a recording ends.

Where another process makes the trace, as of a child's recording, it has the file alone. What
listeners add to a trace is lost to it where the process is killed, unless they note it sooner.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opscope import _native
from opscope.recording.compiled.listener import GeneratedCode
from opscope.recording.compiled.told_places import noted_places
from opscope.recording.decoded import Decoded
from opscope.recording.listeners import DEVICES, DeviceActivity, Listener
from opscope.recording.sources import SOURCES, RecordingOptions

_NOTE = "known at the end"

Known = Mapping[str, Any]
"""By class of the listener."""


def note_known(listeners: Sequence[Listener]) -> None:
    """Into the stream that runs; the window is about to close."""
    known = {type(one).__name__: one.known_of_window() for one in listeners}
    _native.note_in_stream(json.dumps({_NOTE: known}))


def noted_known(notes: Iterable[str]) -> Known:
    """What was noted; of a recording that did not come to its end only what it noted sooner."""
    known: dict[str, Any] = {}
    sooner: dict[str, Any] = {}
    notes = list(notes)
    for note in notes:
        said = json.loads(note)
        if DEVICES in said:
            sooner[DeviceActivity.__name__] = said[DEVICES]
        known = said.get(_NOTE, known)
    places = noted_places(notes)
    if places:
        sooner[GeneratedCode.__name__] = [[], places]
    return {**sooner, **known}


def with_known(decoded: Decoded, options: RecordingOptions, known: Known) -> Decoded:
    """What was decoded, with what its listeners knew."""
    for source in SOURCES:
        if source.listener is not None and source.is_wanted(options):
            listener = source.listener(options)
            name = type(listener).__name__
            if name in known:
                listener.learn_of_window(known[name])
                decoded = listener.added_to(decoded)
    return decoded
