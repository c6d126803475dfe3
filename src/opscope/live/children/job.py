"""The job of ``opscope run --children``: its folder, and the set-up for child processes."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from opscope.base.files import open_inside, remove_inside
from opscope.errors import UsageError
from opscope.launch import keeper_process
from opscope.live.children import start_hook
from opscope.live.children.child import ChildRecording, ChildSettings, own_rank, take_rank
from opscope.live.children.start_hook.opscope_children import (
    DOORBELL,
    FOLDER,
    PYTHON,
    follow_forks,
    note,
    note_process,
)
from opscope.recording.streams.keeper import begin_watching
from opscope.storage.manifest import PROCESSES, is_opscope_rank
from opscope.storage.partition import cycle_folders, partition_folders
from opscope.storage.processes import begin_job, read_journal


class ChildrenOfRun:
    """Sets up the recording of child processes before the program runs."""

    def __init__(self, settings: ChildSettings, keeper: bool) -> None:
        self._settings, self._keeper = settings, keeper
        self._child = ChildRecording(settings)
        self.rank = own_rank()

    @property
    def process(self) -> int | None:
        """This process's part of the folder; None if that is its rank."""
        return os.getpid() if self.rank is None else None

    def prepare(self) -> None:
        """Prepare the folder; processes that start from now on are recorded."""
        folder = self._settings.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if self.rank is None:
                _clear(folder)
            os.close(open_inside(folder, PROCESSES, os.O_WRONLY | os.O_CREAT))
            if self.rank is None:
                begin_job(folder)
            if self._keeper:
                with suppress(FileExistsError, NotImplementedError, PermissionError):
                    os.mkfifo(folder / DOORBELL, 0o600)
            self._settings.write()
        except OSError as error:
            raise UsageError(
                f"{folder}, the folder for the traces of the processes, is not writable "
                f"({error.strerror or error}), so the program was not started. Choose a "
                "writable folder with --output."
            ) from error
        note_process(str(folder), "program")
        self._set_environment()
        follow_forks(str(folder))
        if self._keeper:
            _begin_keeper(folder)

    def recording_began(self) -> None:
        """Note that this process is recorded; also record processes forked from it."""
        rank = {} if self.rank is None else {"rank": self.rank}
        note(str(self._settings.folder), "recording", **rank)
        take_rank(self.rank)
        self._child.follow_forks()

    @property
    def folder(self) -> Path:
        """Folder of the trace."""
        return self._settings.folder

    @property
    def has_cycles(self) -> bool:
        """Whether a process may make several recordings, because of a schedule."""
        return self._settings.has_cycles

    def _set_environment(self) -> None:
        hook = os.path.dirname(os.path.abspath(start_hook.__file__))
        others = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = hook if not others else os.pathsep.join((hook, others))
        os.environ[FOLDER] = os.fspath(self._settings.folder)
        os.environ[PYTHON] = str(sys.implementation.cache_tag)


def _clear(folder: Path) -> None:
    """Remove the processes of an earlier trace, which would look like processes of this run.

    Unfinished recordings stay, because they can be recovered.
    """
    for parent in (folder, *cycle_folders(folder)):
        for part in partition_folders(parent).values():
            if is_opscope_rank(part):
                remove_inside(parent, part.name)
        for name in (PROCESSES, DOORBELL):
            remove_inside(parent, name)
        if parent != folder:
            with suppress(OSError):  # the folder has other files
                parent.rmdir()


def _begin_keeper(folder: Path) -> None:
    """Start the keeper, which records how processes ended and makes traces of remaining files."""
    with suppress(OSError, ValueError):
        begin_watching(keeper_process.__file__, ["job", str(folder / PROCESSES)])


class FlightJob(ChildrenOfRun):
    """A job whose processes have flight recorders; its journal is in a temporary folder.

    Several programs may share the folder of dumps. ``end`` removes the temporary folder; processes
    that still run then keep their flight recorders, but their new children have none.
    """

    @classmethod
    def begin(cls, arguments: Mapping[str, Any]) -> FlightJob:
        """Make and prepare the job; processes that start from now on have flight recorders."""
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
        """Ids of all processes so far, in order of start."""
        return list(dict.fromkeys(entry.process_id for entry in read_journal(self.folder)))

    def end(self) -> None:
        """Remove the temporary folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
