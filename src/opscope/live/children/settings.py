"""Settings for child processes, in a file in the trace folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from opscope.base.artefacts import unfinished_name
from opscope.base.files import read_inside

SETTINGS = ".children.json"
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ChildSettings:
    """How children are recorded."""

    folder: Path  # of the trace; of a flight recorder, where its processes are listed
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of ``ProfileRecording``
    max_disk_bytes: int | None = None  # of the file of each; None for its share of what is free
    drop_in: bool = True  # torch.profiler in them records with opscope, too
    # arguments of :func:`opscope.schedule`: which steps of each; None for all
    schedule: Mapping[str, int] | None = None
    # likewise, of what is recorded besides of some steps; empty where all is recorded alike
    detail: Mapping[str, Any] = field(default_factory=dict)
    # arguments of :class:`opscope.flight_recorder`, where each has one of its own, and is not
    # recorded otherwise
    flight: Mapping[str, Any] | None = None

    @property
    def has_cycles(self) -> bool:
        """Each process may have several recordings, each in the folder of its cycle."""
        return self.schedule is not None and self.schedule["repeat"] != 1

    def write(self) -> None:
        """Put it into the folder."""
        values = asdict(self)
        del values["folder"]
        unfinished = self.folder / unfinished_name(SETTINGS)
        unfinished.write_text(json.dumps(values))
        unfinished.replace(self.folder / SETTINGS)

    @classmethod
    def read(cls, folder: Path) -> ChildSettings:
        """What the folder says."""
        return cls(folder=folder, **json.loads(read_inside(folder, SETTINGS, _MOST_BYTES)))
