"""Kernel counters of every thread during a window, and of processes that the program may wait for.

A native thread (``native/sampler/``) reads CPU time, waits for a CPU, system calls and
first-touched pages. The account of time (``analysis/account/``) explains gaps between spans with
them. Of child processes, and of ranks that the same parent started, it reads CPU time and waits
for a CPU.
"""

from __future__ import annotations

import base64
import sys
from contextlib import suppress
from typing import Any

import numpy as np

import opscope._native as _native
from opscope.columns.schema import THREAD_SAMPLES
from opscope.recording.decoded import Decoded, delivered_table
from opscope.recording.facts.process_facts import is_rank_of_several
from opscope.recording.listeners import Listener

_SOURCE = "thread samples"


class ThreadSamples(Listener):
    """Samples of one window; none in a process that only decodes."""

    def __init__(self) -> None:
        self._number = _native.new_number()
        self._taken: tuple[Any, int, int, bool] | None = None

    def prepare(self) -> None:
        """Make the kernel's slow one-time preparations, before the window."""
        _native.prepare_thread_samples()

    def begin(self) -> None:
        """Start sampling threads."""
        with suppress(MemoryError):  # the recording continues without samples
            _native.begin_thread_samples(self._number, _is_rank())

    def before_end(self) -> None:
        """Sample threads for the last time."""
        with suppress(MemoryError):
            self._taken = self._taken or _native.end_thread_samples(self._number)

    def added_to(self, decoded: Decoded) -> Decoded:
        """Add the table ``thread_samples``."""
        if self._taken is None:
            return decoded
        columns, processor_ns, looks, is_cut = self._taken
        table = delivered_table(THREAD_SAMPLES, {THREAD_SAMPLES.name: columns})
        notes = (
            (_SOURCE, "recorded", float(len(table))),
            (_SOURCE, "samplings of all threads", float(looks)),
            (_SOURCE, "CPU time of the sampler; ns", float(processor_ns)),
            (_SOURCE, "dropped: memory limit, or out of memory", float(is_cut)),
        )
        return decoded.with_tables(thread_samples=table).with_notes(notes)

    def known(self, whole: bool = True) -> Any:
        """All samples, columns as bytes."""
        if self._taken is None:
            return None
        columns, *counts = self._taken
        texts = {
            name: [column.dtype.str, base64.b64encode(column.tobytes()).decode()]
            for name, column in ((n, np.asarray(c)) for n, c in columns.items())
        }
        return [texts, *counts]

    def learn(self, known: Any) -> None:
        """Take over samples that :meth:`known` returned."""
        if known is not None:
            texts, processor_ns, looks, is_cut = known
            columns = {
                name: np.frombuffer(base64.b64decode(text), dtype)
                for name, (dtype, text) in texts.items()
            }
            self._taken = (columns, int(processor_ns), int(looks), bool(is_cut))


def _is_rank() -> bool:
    """Whether the processes that the same parent started are ranks of one job: the environment says
    so, or ``multiprocessing`` started this one, as ``torch.multiprocessing.spawn`` does."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    has_parent = multiprocessing is not None and multiprocessing.parent_process() is not None
    return is_rank_of_several() or has_parent
