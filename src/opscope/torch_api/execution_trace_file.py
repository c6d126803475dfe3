"""Writes an execution trace file from any number of recordings, one after another."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from typing import IO

import opscope._native as _native
from opscope.export.execution_trace import local_time, whole_file
from opscope.export.execution_trace_nodes import BLOCK_BYTES, NodeWriter, base_ns_of
from opscope.export.output_file import Block, check_writable, write_file
from opscope.recording.recorder import Recording
from opscope.recording.sources import RecordingOptions

_OPTIONS = RecordingOptions(
    shapes=True, outputs=True, overloads=True, gc_pauses=False, process_ids=True
)
"""Options for an execution trace, with the ids that a concurrent profile shows."""


class ObservedFile:
    """An observer's file. A recording is written when the next begins: two in memory at most."""

    def __init__(self, path: str) -> None:
        """Check that the file is writable; :meth:`close` writes it."""
        check_writable(path)
        self.path = path
        self._head: dict[str, int | str] = {
            "pid": os.getpid(),
            "time": local_time(time.time()),
            "start_ts": time.monotonic_ns() // 10**6,
        }
        self._nodes = NodeWriter()
        self._recordings: list[Recording] = []
        self._spool: IO[bytes] | None = None
        self._spooled = 0  # bytes of completely spooled recordings
        self._section = _native.Section()
        self._is_writing = False
        self._closed = False

    @property
    def is_showing(self) -> bool:
        """Whether the file is being recorded to."""
        return bool(self._recordings) and self._recordings[-1].running

    def start(self) -> None:
        """Start recording."""
        self._spool_finished()
        recording = Recording(_OPTIONS)
        self._recordings.append(recording)  # listed before it starts, so that stop() stops it
        recording.start()

    def stop(self) -> None:
        """Stop recording."""
        if self._recordings:
            self._recordings[-1].stop()

    def close(self) -> None:
        """Write the file; warns if that fails."""
        if self._closed or self._is_writing or self._head["pid"] != os.getpid():
            return
        self.stop()
        try:
            self._section.run(self._write, self._undo_write)
        except Exception as error:  # the program continues without its file
            self._closed = True
            warnings.warn(f"The execution trace was not written: {error}", stacklevel=3)

    def _write(self) -> None:
        if self._closed:
            return
        self._is_writing = True
        finish_ms = time.monotonic_ns() // 10**6
        blocks = self._all_blocks()
        write_file(self.path, whole_file(self._head, blocks, finish_ms, base_ns=self._base_ns()))
        self._closed = True
        self._recordings.clear()
        if self._spool is not None:
            self._spool.close()
        self._is_writing = False

    def _undo_write(self) -> None:
        self._is_writing = False  # it was interrupted; the next call writes the file again

    def _all_blocks(self) -> Iterator[Block]:
        if self._spool is not None:
            self._spool.truncate(self._spooled)
            self._spool.seek(0)
            while block := self._spool.read(BLOCK_BYTES):
                yield block
        for recording in self._recordings:
            if recording.has_ended:
                yield from self._nodes.blocks(recording.trace)

    def _spool_finished(self) -> None:
        finished = [recording for recording in self._recordings if recording.has_ended]
        if not finished:
            return
        if self._spool is None:
            folder = os.path.dirname(os.path.realpath(self.path))
            self._spool = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (kept until close)
        for recording in finished:
            self._spool.seek(self._spooled)  # overwrites data of an interrupted call
            for block in self._nodes.blocks(recording.trace):
                self._spool.write(block if isinstance(block, bytes) else block.data)
            others = [other for other in self._recordings if other is not recording]
            # One call: an interruption changes both or neither.
            vars(self).update(_recordings=others, _spooled=self._spool.tell())

    def _base_ns(self) -> int | None:
        """Zero of the file's times; None if nothing was recorded."""
        if self._nodes.base_ns:
            return self._nodes.base_ns
        return next((base_ns_of(each.trace) for each in self._recordings if each.has_ended), None)
