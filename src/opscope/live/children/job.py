"""The processes of one opscope run --children: their folder, and the set-up that reaches them."""

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
from opscope.live.children.child import ChildRecording, own_rank, take_rank
from opscope.live.children.settings import ChildSettings
from opscope.live.children.start_hook.opscope_children import (
    DOORBELL,
    FOLDER,
    PYTHON,
    follow_forks,
    note,
    note_process,
)
from opscope.recording.streams.keeper import begin_watching
from opscope.storage.manifest import is_opscope_rank
from opscope.storage.partition import cycle_folders, partition_folders
from opscope.storage.processes import PROCESSES, begin_job, read_journal


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
        """Prepare the folder, and reach child processes from now on."""
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
        self._enter_environment()
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
        """Whether a schedule may make each process record several times."""
        return self._settings.has_cycles

    def _enter_environment(self) -> None:
        hook = os.path.dirname(os.path.abspath(start_hook.__file__))
        others = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = hook if not others else os.pathsep.join((hook, others))
        os.environ[FOLDER] = os.fspath(self._settings.folder)
        os.environ[PYTHON] = str(sys.implementation.cache_tag)


def _clear(folder: Path) -> None:
    """Remove parts of an earlier trace, which would look like processes of this run.

    Unfinished recordings stay: they can still be recovered.
    """
    for place in (folder, *cycle_folders(folder)):
        for part in partition_folders(place).values():
            if is_opscope_rank(part):
                remove_inside(place, part.name)
        for left in (PROCESSES, DOORBELL):
            remove_inside(place, left)
        if place != folder:
            with suppress(OSError):  # the folder has other files
                place.rmdir()


def _begin_keeper(folder: Path) -> None:
    """Start a keeper, which notes how processes ended and makes traces of later ones."""
    with suppress(OSError, ValueError):
        begin_watching(keeper_process.__file__, ["job", str(folder / PROCESSES)])


class FlightJob(ChildrenOfRun):
    """A job whose processes have flight recorders; it uses no file in the folder of dumps.

    Several programs may share that folder. The processes are listed in a temporary folder, removed
    at the program's end: processes that still run then keep their flight recorders, and their
    children have none.
    """

    @classmethod
    def begin(cls, arguments: Mapping[str, Any]) -> FlightJob:
        """Reach child processes from now on."""
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
        """Ids of the processes so far, in order of start."""
        return list(dict.fromkeys(entry.process_id for entry in read_journal(self.folder)))

    def end(self) -> None:
        """Remove the temporary folder: the program has ended."""
        shutil.rmtree(self.folder, ignore_errors=True)
