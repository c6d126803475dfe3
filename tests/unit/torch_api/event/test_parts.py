"""Device types with and without torch; metadata of device activity from Kineto's texts."""

import sys

from opscope.torch_api.event.parts import (
    DeviceType,
    device_type,
    is_cpu,
    metadata_from_kineto,
)


def test_without_torch_it_is_our_own_enum(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)

    assert device_type(1) is DeviceType.CUDA
    assert is_cpu(device_type(0)) and not is_cpu(device_type(1))


def test_with_torch_it_is_torchs():
    from torch.autograd import DeviceType as TorchDeviceType

    for ours in DeviceType:
        if hasattr(TorchDeviceType, ours.name):
            assert device_type(ours) is getattr(TorchDeviceType, ours.name) or device_type(
                ours
            ) == getattr(TorchDeviceType, ours.name)
            assert getattr(TorchDeviceType, ours.name).value == ours.value
    assert is_cpu(TorchDeviceType.CPU)


def test_known_texts_become_typed_fields():
    metadata = metadata_from_kineto(
        {
            "grid": "[4, 1, 1]",
            "stream": "7",
            "est. achieved occupancy %": "50.5",
            "Collective name": '"all_reduce"',
            "Is asynchronized op": "true",
            "something else": "x",
        }
    )

    assert metadata is not None
    assert (metadata.grid, metadata.stream, metadata.est_occupancy_pct) == ([4, 1, 1], 7, 50.5)
    assert (metadata.collective_name, metadata.is_async) == ("all_reduce", True)
    assert metadata.block is None
