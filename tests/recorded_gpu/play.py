"""Playing a job: its threads run anew, with an operator, annotation or call for each of the file.

What ran on the CPU takes the time that it takes here. Of the devices every time is the file's, all
moved by one number, so that nothing begins before its launch.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tests.recorded_gpu.job import COPY, KERNEL, SET, SYNCHRONISATION, Job, Span, Work
from tests.support.fake_cupti import FakeCupti

PLAYED = np.dtype(
    [
        *((name, "u8") for name in ("start", "end", "bytes", "graph_node")),
        *((n, "u4") for n in ("kind", "correlation", "device", "context", "stream", "name")),
        ("grid", "u4", 3),
        ("block", "u4", 3),
        *((n, "u4") for n in ("registers", "shared_memory", "copy_kind", "source", "target")),
        *((n, "u4") for n in ("event", "sync_type", "graph")),
    ]
)
"""As ``Played`` of ``fake_cupti_play.cpp``."""

_CUPTI_KIND = {KERNEL: 10, COPY: 1, SET: 2, SYNCHRONISATION: 38}
_COPY_BETWEEN_DEVICES, _EVENT_RECORD, _BETWEEN_DEVICES = 22, 36, 10
_LONGEST_WAIT_NS = 3_000_000_000
_FLUSHED_EVERY = 400


@dataclass
class Played:
    """What was played.

    Attributes:
        work: what devices did; the file's, but for what was turned into a graph.
        around: per correlation id what was around its call, the call first.
        captured: per node of a graph what was around its capture, innermost first.
        calls: the calls, by correlation id.
        records: how many there were for CUPTI to deliver.
    """

    work: list[Work] = field(default_factory=list)
    around: dict[int, list[str]] = field(default_factory=dict)
    captured: dict[int, list[str]] = field(default_factory=dict)
    calls: dict[int, Span] = field(default_factory=dict)
    records: int = 0


def play(job: Job, fake: FakeCupti, *, with_events: bool = True, as_graph: bool = False) -> Played:
    """Play it once; a recording that wants devices has to be running.

    Args:
        job: what to play.
        fake: whose records they become.
        with_events: CUDA events that are waited for are recorded too.
        as_graph: kernels are captured where the file launches them, and a graph launches them all.
    """
    kernels = {work.correlation for work in job.work if work.kind == KERNEL} if as_graph else set()
    stage = _Stage(job, fake, kernels)
    stage.play_threads()
    stage.launch_graph()
    stage.play_work(with_events)
    return stage.played


class _Stage:
    def __init__(self, job: Job, fake: FakeCupti, captured: set[int]) -> None:
        self.job, self.played = job, Played(work=job.work)
        self._fake, self._captured = fake, captured
        self._nodes: dict[int, int] = {}
        self._copies: dict[int, int] = {}
        self._library = fake.library
        self._library.fake_begin_call.restype = ctypes.c_uint64
        assert self._library.fake_played_bytes() == PLAYED.itemsize
        self._begun: dict[int, int] = {}
        self._started_ns: int = self._library.fake_begin_call()
        self._spans = 0
        for function in {
            (span.api, span.function, span.name) for spans in job.threads.values() for span in spans
        }:
            version = "_v3020" if function[0] == 0 and function[2].startswith("cuda") else ""
            self._library.fake_name_call(*function[:2], f"{function[2]}{version}".encode())

    def play_threads(self) -> None:
        """Every thread of the file as one of this process, all at once."""
        threads = [
            threading.Thread(target=self._play_spans, args=(spans,))
            for spans in self.job.threads.values()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _play_spans(self, spans: Sequence[Span]) -> None:
        open_spans: list[tuple[Span, AbstractContextManager[Any]]] = []
        torch.empty(0)  # a thread's fast annotations are seen once it has run an operator
        for span in spans:
            while open_spans and open_spans[-1][0].end_ns <= span.start_ns:
                open_spans.pop()[1].__exit__(None, None, None)
            open_spans.append((span, self._entered(span, [s.name for s, _ in open_spans])))
            self._spans += 1
            if self._spans % _FLUSHED_EVERY == 0:
                self._library.fake_flush()
        while open_spans:
            open_spans.pop()[1].__exit__(None, None, None)

    def _entered(self, span: Span, around: list[str]) -> AbstractContextManager[Any]:
        if span.kind == "operator":
            region: Any = torch._C._profiler._RecordFunctionFast(span.name)
        elif span.kind == "annotation":
            region = torch.profiler.record_function(span.name)
        elif span.correlation in self._captured:
            self._nodes[span.correlation] = node = self._fake.capture_node()
            self.played.captured[node] = around[::-1]
            region = nullcontext()
        else:
            self.played.around[span.correlation] = [span.name, *reversed(around)]
            self.played.calls[span.correlation] = span
            self.played.records += 1
            region = self._call(span)
        region.__enter__()
        return region  # type: ignore[no-any-return]

    @contextmanager
    def _call(self, span: Span) -> Iterator[None]:
        begun = self._library.fake_begin_call()
        self._begun[span.correlation] = begun
        yield
        self._library.fake_end_call(
            span.api, span.function, ctypes.c_uint64(begun), span.correlation
        )

    def launch_graph(self) -> None:
        """One call for all that was captured, with the nodes of an instantiated graph."""
        if not self._nodes:
            return
        known = [work.correlation for work in self.job.work]
        correlation = max([*known, *self.played.calls]) + 1
        launch = Span("cudaGraphLaunch", "call", 0, 0, function=311, correlation=correlation)
        self._entered(launch, []).__exit__(None, None, None)
        self._copies = {n: self._fake.instantiate_node(n) for n in self._nodes.values()}
        self.played.work = [
            replace(
                work, correlation=correlation, graph=1, graph_node=self._nodes[work.correlation]
            )
            if work.correlation in self._nodes
            else work
            for work in self.job.work
        ]

    def play_work(self, with_events: bool) -> None:
        """All work, and wait until the last piece would be over."""
        rows = self._rows(with_events)
        names = list(dict.fromkeys(work.name for work in self.played.work))
        texts = (ctypes.c_char_p * max(len(names), 1))(*(name.encode() for name in names))
        data = rows.ctypes.data_as(ctypes.c_void_p)
        self._library.fake_play(data, ctypes.c_size_t(len(rows)), texts)
        self.played.records += len(rows)
        now = self._library.fake_begin_call()
        left = int(rows["end"].max(initial=0)) - now
        if 0 < left < _LONGEST_WAIT_NS:
            time.sleep(left / 1e9 + 0.001)
        self._library.fake_finish()

    def _rows(self, with_events: bool) -> npt.NDArray[Any]:
        work = self.played.work
        offset = max(
            (self._begun.get(w.correlation, self._started_ns) - w.start_ns for w in work), default=0
        )
        names = {name: row for row, name in enumerate(dict.fromkeys(w.name for w in work))}
        made = [self._row(piece, names[piece.name], offset) for piece in work]
        rows = np.array(made, dtype=PLAYED)
        if with_events:
            rows = np.concatenate([rows, _event_records(work)])
        return rows

    def _row(self, work: Work, name: int, offset: int) -> tuple[Any, ...]:
        between = work.copy_kind == _BETWEEN_DEVICES
        kind = _COPY_BETWEEN_DEVICES if between else _CUPTI_KIND[work.kind]
        node = self._copies.get(work.graph_node, work.graph_node)
        stream = work.stream & 0xFFFFFFFF
        return (
            work.start_ns + offset, work.end_ns + offset, work.size_bytes, node, kind,
            work.correlation, work.device, work.context, stream, name, work.grid or (0, 0, 0),
            work.block or (0, 0, 0), work.registers, work.shared_memory, work.copy_kind,
            work.source, work.target, work.event, work.sync_type, work.graph,
        )  # fmt: skip


def _event_records(work: list[Work]) -> npt.NDArray[Any]:
    known = {w.waits_for: w for w in work if w.waits_for >= 0}
    rows = np.zeros(len(known), dtype=PLAYED)
    for row, (correlation, wait) in zip(rows, known.items(), strict=True):
        row["kind"], row["correlation"], row["event"] = _EVENT_RECORD, correlation, wait.event
        row["context"], row["stream"] = wait.context, wait.waits_for_stream & 0xFFFFFFFF
    return rows
