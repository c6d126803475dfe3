"""Folders for copies of what lies elsewhere."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from opscope.errors import TraceFormatError
from opscope.scratch import scratch_folder


class RemoteFolder:
    """One for temporary files, which goes with this object, or else with the process.

    Attributes:
        path: of it.

    Raises:
        TraceFormatError: none can be made.
    """

    def __init__(self) -> None:
        with self.writing(""):
            self.path = scratch_folder(self)

    @contextmanager
    def writing(self, address: str) -> Iterator[None]:
        """What this machine says goes wrong with the copy of an address.

        Raises:
            TraceFormatError: it cannot be written.
        """
        try:
            yield
        except OSError as error:
            what = f"The copy of {address}" if address else "A copy of what lies elsewhere"
            raise TraceFormatError(
                f"{what} cannot be written to {tempfile.gettempdir()}: {error.strerror or error}. "
                "Set TMPDIR to a folder with room."
            ) from error
