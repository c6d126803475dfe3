"""Device types with and without torch."""

import sys

from opscope.torch_api.event.device_type import DeviceType, device_type, is_cpu


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
