"""Annotations as devices saw them, of devices that are not CUDA's."""

import numpy as np

from opscope.columns.codes import DeviceType, EventKind, GpuKind
from opscope.columns.schema import TABLES
from opscope.columns.table import Table
from opscope.recording.gpu.events import annotation_spans

STEP, CALL = 0, 1


def events():
    """An annotation with the call of a runtime in it."""
    return Table(
        TABLES["events"],
        {
            "parent": np.array([-1, STEP], dtype=np.int32),
            "kind": np.array([EventKind.ANNOTATION, EventKind.RUNTIME_CALL], dtype=np.uint8),
            "name": np.array([7, 8], dtype=np.int32),
        },
    )


def work(*device_types):
    """A kernel on each device, one after the other."""
    count = len(device_types)
    start_ns = np.arange(count, dtype=np.int64) * 100 + 1000
    return Table(
        TABLES["gpu"],
        {
            "kind": np.full(count, GpuKind.KERNEL, dtype=np.uint8),
            "name": np.full(count, 9, dtype=np.int32),
            "start_ns": start_ns,
            "duration_ns": np.full(count, 50, dtype=np.int64),
            "device_type": np.array(device_types, dtype=np.int8),
            "launch": np.full(count, CALL, dtype=np.int32),
        },
    )


def test_an_annotation_has_the_device_type_of_the_work_in_it():
    gpu = annotation_spans(events(), work(DeviceType.XPU, DeviceType.XPU))
    assert gpu["kind"].tolist() == [GpuKind.ANNOTATION, GpuKind.KERNEL, GpuKind.KERNEL]
    assert gpu["device_type"].tolist() == [DeviceType.XPU] * 3
    assert gpu["duration_ns"][0] == 150


def test_devices_of_two_types_with_one_number_are_not_one():
    gpu = annotation_spans(events(), work(DeviceType.CUDA, DeviceType.XPU))
    annotations = gpu["kind"] == GpuKind.ANNOTATION
    assert gpu["device_type"][annotations].tolist() == [DeviceType.CUDA, DeviceType.XPU]
    assert gpu["duration_ns"][annotations].tolist() == [50, 50]
