"""The processes of one ``opscope run --flight-recorder --children``: a flight recorder in each."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opscope.live.children.job import ChildrenOfRun
from opscope.live.children.settings import ChildSettings
from opscope.storage.processes import read_journal


class FlightJob(ChildrenOfRun):
    """Nothing of it is in the folder of the dumps, which several programs may share.

    The processes are listed in a folder of its own, which goes with the program: processes that are
    still there then keep their flight recorders, and those that they begin have none.
    """

    @classmethod
    def begin(cls, arguments: Mapping[str, Any]) -> FlightJob:
        """Have processes reached from now on.

        Args:
            arguments: of the flight recorder that each is to have.
        """
        job = cls(
            ChildSettings(
                folder=Path(tempfile.mkdtemp(prefix="opscope-job-")),
                drop_in=os.environ.get("OPSCOPE_DROP_IN") != "0",
                flight=arguments,
            ),
            keeper=False,
        )
        job.prepare()
        return job

    def processes(self) -> list[int]:
        """Those that there were so far, in the order in which they began."""
        return list(dict.fromkeys(entry.process_id for entry in read_journal(self.folder)))

    def end(self) -> None:
        """The program has ended."""
        shutil.rmtree(self.folder, ignore_errors=True)
