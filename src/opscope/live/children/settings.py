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

    folder: Path  # folder of the trace, or with a flight recorder of the journal
    arguments: Mapping[str, Any] = field(default_factory=dict)  # arguments of ``ProfileRecording``
    max_disk_bytes: int | None = None  # limit of each file; None for a share of the free space
    drop_in: bool = True  # torch.profiler in children records with opscope
    schedule: Mapping[str, int] | None = None  # arguments of :func:`opscope.schedule`
    detail: Mapping[str, Any] = field(default_factory=dict)  # arguments for steps in detail
    # arguments of :class:`opscope.flight_recorder`, if children have only flight recorders
    flight: Mapping[str, Any] | None = None

    @property
    def has_cycles(self) -> bool:
        """Whether each process may make several recordings, each in the folder of its cycle."""
        return self.schedule is not None and self.schedule["repeat"] != 1

    def write(self) -> None:
        """Write the settings to the folder."""
        values = asdict(self)
        del values["folder"]
        unfinished = self.folder / unfinished_name(SETTINGS)
        unfinished.write_text(json.dumps(values))
        unfinished.replace(self.folder / SETTINGS)

    @classmethod
    def read(cls, folder: Path) -> ChildSettings:
        """Read the settings in the folder."""
        return cls(folder=folder, **json.loads(read_inside(folder, SETTINGS, _MOST_BYTES)))
