"""Annotations as devices saw them, of devices that are not CUDA's."""

from opscope.columns.codes import DeviceType, EventKind, GpuKind
from opscope.recording.gpu.events import annotation_spans
from support.build_trace import build_trace, kernel, span


def annotated(*device_types):
    """An annotation whose launch starts a kernel on each device, one after the other."""
    spans = [
        span("step", 0, 90, kind=EventKind.ANNOTATION),
        span("launch", 1, 2, kind=EventKind.RUNTIME_CALL),
    ]
    work = [
        kernel("k", 100 * n, 100 * n + 50, kind=GpuKind.KERNEL, launch=1, device_type=device_type)
        for n, device_type in enumerate(device_types)
    ]
    trace = build_trace(spans, gpu=work)
    return annotation_spans(trace.events, trace.table("gpu"))


def test_an_annotation_has_the_device_type_of_the_work_in_it():
    gpu = annotated(DeviceType.XPU, DeviceType.XPU)
    assert gpu["kind"].tolist() == [GpuKind.ANNOTATION, GpuKind.KERNEL, GpuKind.KERNEL]
    assert gpu["device_type"].tolist() == [DeviceType.XPU] * 3
    assert gpu["duration_ns"][0] == 150_000


def test_devices_of_two_types_with_one_number_are_not_one():
    gpu = annotated(DeviceType.CUDA, DeviceType.XPU)
    annotations = gpu["kind"] == GpuKind.ANNOTATION
    assert gpu["device_type"][annotations].tolist() == [DeviceType.CUDA, DeviceType.XPU]
    assert gpu["duration_ns"][annotations].tolist() == [50_000, 50_000]
