"""OpenTelemetry: spans of requests as they happen; spans and metrics of a recording afterwards.

Needs only OpenTelemetry's API (``opscope[otel]``): the program has SDK and exporter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from opentelemetry import metrics, propagate, trace

from opscope.analysis.requests import request_spans
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData
from opscope.findings.verdict import find_verdict
from opscope.timeline.steps import program_steps
from opscope.timeline.tree.event_tree import event_tree, nearest_ancestor
from opscope.torch_api.annotate import awaited_within

_NAME = "opscope"
_RECORDING = "opscope.recording"
_MOST_SPANS = 10_000


class TraceRequests:
    """An ASGI middleware: each request is a span, below the one in its ``traceparent``."""

    def __init__(self, app: Any, profiler: Any = None) -> None:
        """``profiler``: result of :func:`opscope.serve.asgi`; spans name its recording."""
        self._app, self._profiler = app, profiler

    def __call__(self, scope: Any, receive: Callable[..., Any], send: Callable[..., Any]) -> Any:
        """Run the app; ``http`` requests become spans."""
        answer = self._app(scope, receive, send)
        if scope["type"] != "http":
            return answer
        headers = {
            name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]
        }
        about = {"http.request.method": scope["method"], "url.path": scope["path"]}
        running = None if self._profiler is None else self._profiler.control.status()["recording"]
        if running is not None:
            about[_RECORDING] = running["output_dir"]
        span = trace.get_tracer(_NAME).start_as_current_span(
            f"{scope['method']} {scope['path']}",
            context=propagate.extract(headers),
            kind=trace.SpanKind.SERVER,
            attributes=about,
        )
        return awaited_within(span, answer, lambda: None)


def export_trace(recorded: TraceData, modules: int = 0) -> int:
    """Make spans of a recording's steps, requests and modules, and metrics of its verdict.

    Args:
        recorded: a trace.
        modules: depth in the network up to which modules become spans; 0: none.

    Returns:
        Number of spans, at most 10,000.
    """
    tracer, verdict = trace.get_tracer(_NAME), find_verdict(recorded)
    metadata, events = recorded.metadata, recorded.events
    known = {_RECORDING: str(metadata.get("trace_id", "")), "opscope.verdict": str(verdict)}
    start_ns = int(events["start_ns"].min()) if len(events) else 0
    root = tracer.start_span("opscope recording", start_time=start_ns, attributes=known)
    below = trace.set_span_in_context(root)
    count = 1
    for name, begun_ns, ended_ns in _spans(recorded, modules):
        if count == _MOST_SPANS:
            break
        span = tracer.start_span(name, context=below, start_time=begun_ns)
        span.set_attribute(_RECORDING, known[_RECORDING])
        span.end(end_time=ended_ns)
        count += 1
    root.end(end_time=recorded.end_ns.max().item() if len(events) else 0)
    _export_metrics(recorded, verdict.metrics())
    return count


def _spans(recorded: TraceData, modules: int) -> Iterator[tuple[str, int, int]]:
    steps, _ = program_steps(recorded)
    for number, begun, ended in zip(steps.number, steps.start_ns, steps.end_ns, strict=True):
        yield f"step {number}", int(begun), int(ended)
    requests = request_spans(recorded)
    for event, begun, ended in zip(requests.event, requests.start_ns, requests.end_ns, strict=True):
        yield recorded.event_name(int(event)), int(begun), int(ended)
    is_module = np.asarray(recorded.events["kind"] == EventKind.MODULE_CALL)
    tree = event_tree(recorded)
    rows, left = np.flatnonzero(is_module), modules
    around = nearest_ancestor(tree.parent, is_module)
    chosen = rows[around[rows] < 0]
    while left and len(chosen):
        for event in chosen:
            begun = int(tree.start_ns[event])
            yield recorded.event_name(int(event)), begun, begun + int(tree.duration_ns[event])
        chosen, left = rows[np.isin(around[rows], chosen)], left - 1


def _export_metrics(recorded: TraceData, numbers: dict[str, float]) -> None:
    meter = metrics.get_meter(_NAME)
    for name, value in numbers.items():
        meter.create_gauge(f"{_NAME}.{name}").set(value)
    dropped = sum(count for _, _, count in recorded.ledger.losses())
    meter.create_gauge(f"{_NAME}.events_dropped").set(dropped)
    steps, _ = program_steps(recorded)
    taken = meter.create_histogram(f"{_NAME}.step.duration", unit="s")
    for duration_ns in steps.end_ns - steps.start_ns:
        taken.record(int(duration_ns) / 1e9)
