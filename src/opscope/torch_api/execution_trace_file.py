"""An execution trace file in the making: any number of recordings, one after another."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.columns.trace_data import TraceData
from opscope.export.execution_trace import local_time, whole_file
from opscope.export.execution_trace_nodes import BLOCK_BYTES, NodeWriter, base_ns_of
from opscope.export.output_file import Block, check_writable, write_file
from opscope.recording.recorder import Recording
from opscope.recording.sources import RecordingOptions

NEEDED = RecordingOptions(shapes=True, outputs=True, overloads=True, gc_pauses=False)
"""What an execution trace is made of."""

_ALONE = NEEDED.union(RecordingOptions(gc_pauses=False, process_ids=True))


@dataclass
class Segment:
    """One recording that the file shows, or parts of it."""

    recording: Recording  # one made for this file, or that of a profile
    shared: bool  # whether it is that of a profile
    # Unix times from when to when; None for the recording's own bounds
    parts: list[tuple[int | None, int | None]] = field(default_factory=list)

    def left_out(self, trace: TraceData) -> npt.NDArray[np.bool_] | None:
        """The events that began in none of the parts; None if there are none."""
        if self.parts == [(None, None)]:
            return None
        start = trace.events["start_ns"]
        inside = np.zeros(len(start), dtype=np.bool_)
        for begin, end in self.parts:
            inside |= (start >= (begin or 0)) & (True if end is None else start < end)
        return ~inside


class ObservedFile:
    """Recordings are written when the next one begins, so that at most two are in memory."""

    def __init__(self, path: str) -> None:
        """Makes sure that the file can be written; it is written by :meth:`close`."""
        check_writable(path)
        self.path = path
        self._head: dict[str, int | str] = {
            "pid": os.getpid(),
            "time": local_time(time.time()),
            "start_ts": time.monotonic_ns() // 10**6,
        }
        self._nodes = NodeWriter()
        self._segments: list[Segment] = []
        self._spool: IO[bytes] | None = None
        self._spooled = 0  # bytes of segments that were spooled completely
        self._next_id = 1
        self._section = _native.Section()
        self._is_writing = False
        self._closed = False

    @property
    def is_showing(self) -> bool:
        """Between start and stop."""
        last = self._segments[-1] if self._segments else None
        if last is None or not last.recording.running or not last.parts:
            return False
        return last.parts[-1][1] is None

    def share(self, asked: RecordingOptions) -> Recording:
        """A recording for a profile that asks for ``asked``, which this file will show too."""
        self._write_finished()
        recording = Recording(asked, NEEDED, self._next_id)
        self._segments.append(Segment(recording, shared=True))
        return recording

    def start(self) -> None:
        """Show what happens from now on: of the shared recording, if one runs, else a new one."""
        last = self._segments[-1] if self._segments else None
        if last is not None and last.shared and last.recording.running:
            last.parts.append((time.time_ns() if last.parts else None, None))
            return
        self._write_finished()
        segment = Segment(Recording(_ALONE), shared=False, parts=[(None, None)])
        self._segments.append(segment)  # before it starts, so that stop() finds it
        segment.recording.start()

    def stop(self) -> None:
        """Show nothing more."""
        last = self._segments[-1] if self._segments else None
        if last is None:
            return
        if not last.shared:
            last.recording.stop()
        elif self.is_showing:
            last.parts[-1] = (last.parts[-1][0], time.time_ns())

    def close(self) -> None:
        """Write the file, once the recording it shares has ended; says so if that fails."""
        if self._closed or self._is_writing or self._head["pid"] != os.getpid():
            return
        last = self._segments[-1] if self._segments else None
        if last is not None and last.shared and last.recording.running:
            last.recording.when_stopped(self.close)
            return
        if last is not None:
            last.recording.stop()
        try:
            self._section.run(self._write, self._write_not)
        except Exception as error:  # the program goes on without its file
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
        self._segments.clear()
        if self._spool is not None:
            self._spool.close()
        self._is_writing = False

    def _write_not(self) -> None:
        self._is_writing = False  # it was interrupted; the next call writes the file again

    def _all_blocks(self) -> Iterator[Block]:
        if self._spool is not None:
            self._spool.truncate(self._spooled)
            self._spool.seek(0)
            while block := self._spool.read(BLOCK_BYTES):
                yield block
        for segment in self._segments:
            if segment.parts and segment.recording.has_ended:
                yield from self._blocks_of(segment)

    def _write_finished(self) -> None:
        """Move what has been recorded out of memory."""
        finished = [s for s in self._segments if s.recording.has_ended and s.parts]
        if not finished:
            return
        if self._spool is None:
            folder = os.path.dirname(os.path.realpath(self.path))
            self._spool = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (kept until close)
        for segment in finished:
            self._spool.seek(self._spooled)  # overwrites what an interrupted call left
            for block in self._blocks_of(segment):
                self._spool.write(block if isinstance(block, bytes) else block.data)
            others = [other for other in self._segments if other is not segment]
            # In one call, so that an interruption leaves both as they were or changes both.
            vars(self).update(_segments=others, _spooled=self._spool.tell())

    def _blocks_of(self, segment: Segment) -> Iterator[Block]:
        trace = segment.recording.everything
        yield from self._nodes.blocks(trace, segment.left_out(trace))
        ids = trace.events["record_function_id"]
        last = int(ids.max()) if len(ids) else -1
        self._next_id = (last if last >= 0 else self._next_id - 1 + len(ids)) + 1

    def _base_ns(self) -> int | None:
        """What times count from; None if nothing was recorded."""
        if self._nodes.base_ns:
            return self._nodes.base_ns
        shown = (s for s in self._segments if s.parts and s.recording.has_ended)
        return next((base_ns_of(segment.recording.everything) for segment in shown), None)
