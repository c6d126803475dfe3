"""OpenTelemetry: spans of requests while they run; spans and metrics of a finished recording.

Needs only OpenTelemetry's API (``opscope[otel]``); the program sets up SDK and exporter.
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
    """An ASGI middleware: each request becomes a span, a child of the one in ``traceparent``."""

    def __init__(self, app: Any, profiler: Any = None) -> None:
        """``profiler``: result of :func:`opscope.serve.asgi`; spans then name its recording."""
        self._app, self._profiler = app, profiler

    def __call__(self, scope: Any, receive: Callable[..., Any], send: Callable[..., Any]) -> Any:
        """Run the app; ``http`` requests become spans."""
        answer = self._app(scope, receive, send)
        if scope["type"] != "http":
            return answer
        headers = {
            name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]
        }
        attributes = {"http.request.method": scope["method"], "url.path": scope["path"]}
        running = None if self._profiler is None else self._profiler.control.status()["recording"]
        if running is not None:
            attributes[_RECORDING] = running["output_dir"]
        span = trace.get_tracer(_NAME).start_as_current_span(
            f"{scope['method']} {scope['path']}",
            context=propagate.extract(headers),
            kind=trace.SpanKind.SERVER,
            attributes=attributes,
        )
        return awaited_within(span, answer, lambda: None)


def export_trace(recorded: TraceData, modules: int = 0) -> int:
    """Export steps, requests and modules of a trace as spans, and its verdict as metrics.

    ``modules``: levels of modules that become spans; 0: none. Returns the number of spans, at most
    10,000.
    """
    tracer, verdict = trace.get_tracer(_NAME), find_verdict(recorded)
    metadata, events = recorded.metadata, recorded.events
    attributes = {_RECORDING: str(metadata.get("trace_id", "")), "opscope.verdict": str(verdict)}
    start_ns = int(events["start_ns"].min()) if len(events) else 0
    root = tracer.start_span("opscope recording", start_time=start_ns, attributes=attributes)
    root_context = trace.set_span_in_context(root)
    count = 1
    for name, begin_ns, end_ns in _spans(recorded, modules):
        if count == _MOST_SPANS:
            break
        span = tracer.start_span(name, context=root_context, start_time=begin_ns)
        span.set_attribute(_RECORDING, attributes[_RECORDING])
        span.end(end_time=end_ns)
        count += 1
    root.end(end_time=recorded.end_ns.max().item() if len(events) else 0)
    _export_metrics(recorded, verdict.metrics())
    return count


def _spans(recorded: TraceData, modules: int) -> Iterator[tuple[str, int, int]]:
    steps, _ = program_steps(recorded)
    for number, begin, end in zip(steps.number, steps.start_ns, steps.end_ns, strict=True):
        yield f"step {number}", int(begin), int(end)
    requests = request_spans(recorded)
    for event, begin, end in zip(requests.event, requests.start_ns, requests.end_ns, strict=True):
        yield recorded.event_name(int(event)), int(begin), int(end)
    is_module = np.asarray(recorded.events["kind"] == EventKind.MODULE_CALL)
    tree = event_tree(recorded)
    rows, levels_left = np.flatnonzero(is_module), modules
    parent_module = nearest_ancestor(tree.parent, is_module)
    chosen = rows[parent_module[rows] < 0]
    while levels_left and len(chosen):
        for event in chosen:
            begin = int(tree.start_ns[event])
            yield recorded.event_name(int(event)), begin, begin + int(tree.duration_ns[event])
        chosen, levels_left = rows[np.isin(parent_module[rows], chosen)], levels_left - 1


def _export_metrics(recorded: TraceData, numbers: dict[str, float]) -> None:
    meter = metrics.get_meter(_NAME)
    for name, value in numbers.items():
        meter.create_gauge(f"{_NAME}.{name}").set(value)
    dropped = sum(count for _, _, count in recorded.ledger.losses())
    meter.create_gauge(f"{_NAME}.events_dropped").set(dropped)
    steps, _ = program_steps(recorded)
    durations = meter.create_histogram(f"{_NAME}.step.duration", unit="s")
    for duration_ns in steps.end_ns - steps.start_ns:
        durations.record(int(duration_ns) / 1e9)
