"""What a process knows of its recording beside what is in the file: said to the one that makes the
trace, once the recording has ended.

What listeners know is noted in the file itself (``noted.py``); this is what has to be measured or
looked up while nothing is recorded any more.
"""

from __future__ import annotations

import linecache
import os
import sys
import zipimport
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from opscope import _native
from opscope.columns.overloads import described
from opscope.recording.cost import cost_by_kind
from opscope.recording.sources import RecordingOptions

_MOST_TEXT = 4 << 20
"""Characters of source that is in no file."""


@dataclass(frozen=True)
class ProgramFacts:
    """That.

    Attributes:
        cost: of recording, as it was measured there.
        metadata: more of the trace's.
        sources: text of code that is in no file, by what Python calls that.
    """

    cost: Mapping[str, float] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """For the other process."""
        return asdict(self)

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> ProgramFacts:
        """What :meth:`as_json` gave."""
        return cls(said["cost"], said["metadata"], said["sources"])

    def keep_sources(self) -> None:
        """Have views and tracebacks of this process find that code."""
        for name, text in self.sources.items():
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)


NO_FACTS = ProgramFacts()


def facts_of_program(options: RecordingOptions) -> ProgramFacts:
    """Those of this process, which recorded with these; takes no longer for a longer recording."""
    sources = _sources() if options.source_lines else {}
    return ProgramFacts(cost_by_kind(options), _overloads(options), sources)


def _overloads(options: RecordingOptions) -> dict[str, Any]:
    """How the operators can be called, which says what memory was for."""
    if not (options.memory and options.shapes and "torch" in sys.modules):
        return {}
    names = {name for name in _native.names_from(0) if "::" in name}
    return {"overloads": described(sorted(names))}


def _sources() -> dict[str, str]:
    """Of ``-c``, of standard input and of notebooks, and of modules in zip files."""
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
