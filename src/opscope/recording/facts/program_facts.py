"""Facts that only the recorded process knows, for the process that writes its trace.

Listeners write their state to the stream when the recording ends, or earlier to survive a kill.
Measurements and look-ups follow after the end.
"""

from __future__ import annotations

import json
import linecache
import os
import sys
import zipimport
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import opscope._native as _native
from opscope.columns.overloads import described
from opscope.recording.assemble import knows_overloads
from opscope.recording.cost import cost_by_kind
from opscope.recording.decoded import Decoded
from opscope.recording.listeners import Listener
from opscope.recording.sources import RecordingOptions, listeners_of

_FEWEST_RECORDS = 100  # of work without operators; imports alone make fewer


def write_state(listeners: Sequence[Listener]) -> None:
    """Write the listeners' facts to the running stream; the window is about to close."""
    _native.note_in_stream(json.dumps({type(one).__name__: one.known() for one in listeners}))


def with_state(
    decoded: Decoded, options: RecordingOptions, notes: Sequence[Mapping[str, Any]]
) -> Decoded:
    """Add facts of the recorded process's listeners; notes have facts by name of the class."""
    for listener in listeners_of(options):
        name = type(listener).__name__
        known = [note[name] for note in notes if name in note]
        for one in known:
            listener.learn(one)
        if known:
            decoded = listener.added_to(decoded)
    return decoded


_MOST_TEXT = 4 << 20  # largest number of characters of source without a file


@dataclass(frozen=True)
class ProgramFacts:
    """Facts that a process measures or looks up after its recording has ended.

    The listeners' state is in the stream itself.
    """

    cost: Mapping[str, float] = field(default_factory=dict)  # measured cost of recording
    metadata: Mapping[str, Any] = field(default_factory=dict)  # more metadata of the trace
    sources: Mapping[str, str] = field(default_factory=dict)  # texts without a file, by name

    def as_json(self) -> dict[str, Any]:
        """Facts as JSON, for the process that makes the trace."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ProgramFacts:
        """Inverse of :meth:`as_json`."""
        return cls(values["cost"], values["metadata"], values["sources"])

    def keep_sources(self) -> None:
        """Give this process's linecache the source text, for views and tracebacks."""
        for name, text in self.sources.items():
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)


NO_FACTS = ProgramFacts()


def has_work() -> bool:
    """Whether this process has recorded operators, or more than its imports."""
    return bool(_native.names_from(0)) or _native.statistics()["records"] >= _FEWEST_RECORDS


def facts_of_program(options: RecordingOptions) -> ProgramFacts:
    """Facts of this process; of one with work also the cost of recording, which takes 70 ms."""
    sources = _sources() if options.source_lines else {}
    overloads: dict[str, Any] = {}
    if knows_overloads(options):
        names = {name for name in _native.names_from(0) if "::" in name}
        with suppress(MemoryError):  # the trace is made without them
            overloads = {"overloads": described(sorted(names))}
    return ProgramFacts(cost_by_kind(options) if has_work() else {}, overloads, sources)


def _sources() -> dict[str, str]:
    """Source text of ``-c``, standard input, notebooks and modules in zip files."""
    found: dict[str, str] = {}
    for name in [name for name in list(linecache.cache) if not os.path.exists(name)]:
        _keep(found, name, linecache.getlines(name))
    for module in list(sys.modules.values()):
        inside = getattr(module, "__dict__", {})
        if isinstance(inside.get("__loader__"), zipimport.zipimporter):
            file = inside.get("__file__")
            if isinstance(file, str):
                _keep(found, file, linecache.getlines(file, inside))
    return found


def _keep(found: dict[str, str], name: str, lines: list[str]) -> None:
    if lines and sum(map(len, found.values())) + sum(map(len, lines)) <= _MOST_TEXT:
        found[name] = "".join(lines)
