"""Spans and metrics for OpenTelemetry, read back by its own SDK."""

import asyncio

import pytest

from support.build_trace import build_trace, span

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import (
    InMemorySpanExporter,
)

from opscope.columns.schema import EventKind
from opscope.integrations.opentelemetry import TraceRequests, export_trace


@pytest.fixture(scope="module")
def sdk():
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([reader]))
    return spans, reader


def test_steps_and_modules_of_a_recording(sdk):
    spans, reader = sdk
    spans.clear()
    note = {"kind": EventKind.ANNOTATION}
    recorded = build_trace(
        [
            span("ProfilerStep#0", 0, 900, **note),
            span("aten::mm", 100, 800),
            *(span(f"ProfilerStep#{n}", 1000 * n, 1000 * n + 900, **note) for n in range(1, 4)),
            span("request: GET /", 4000, 4500, **note),
        ]
    )

    assert export_trace(recorded) == 6

    made = {one.name: one for one in spans.get_finished_spans()}
    root = made["opscope recording"]
    assert made["step 2"].end_time - made["step 2"].start_time == 900_000
    assert made["step 2"].parent.span_id == root.context.span_id
    assert made["request: GET /"].attributes["opscope.recording"] == ""
    data = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    found = {one.name: one.data.data_points[0] for one in data}
    assert found["opscope.step.duration"].count == 4
    assert found["opscope.events_dropped"].value == 0
    assert "opscope.share_operator" in found


def test_a_request_takes_over_its_context(sdk):
    spans, _ = sdk
    spans.clear()
    trace_id = "0af7651916cd43dd8448eb211c80319c"

    async def app(scope, receive, send):
        if scope["path"] == "/raise":
            raise ValueError("of the app")

    async def ask(path):
        headers = [(b"traceparent", f"00-{trace_id}-b7ad6b7169203331-01".encode())]
        scope = {"type": "http", "method": "GET", "path": path, "headers": headers}
        await TraceRequests(app)(scope, None, None)

    asyncio.run(ask("/a"))
    with pytest.raises(ValueError, match="of the app"):
        asyncio.run(ask("/raise"))
    first, second = spans.get_finished_spans()
    assert f"{first.context.trace_id:032x}" == trace_id
    assert first.attributes["url.path"] == "/a" and not second.status.is_ok
