"""Files for other tools, one format per module; each writes any :class:`~opscope.trace.Trace`."""

from __future__ import annotations

import os
from typing import Protocol

from opscope.trace.trace import Trace


class Exporter(Protocol):
    """What the command line needs to know of a format.

    Attributes:
        name: as in ``opscope export --format NAME``.
        suffix: of the files it writes, with its dot.
    """

    name: str
    suffix: str

    def write(self, trace: Trace, path: str | os.PathLike[str]) -> None:
        """Write the file.

        Raises:
            UsageError: ``path`` cannot be written.
        """
