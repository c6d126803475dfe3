"""Where roctracer is looked for, and when devices are taken for AMD's."""

import sys
from types import SimpleNamespace

from opscope.recording import gpu_collecting, rocm_devices
from opscope.recording.cuda_devices import CudaDevices
from opscope.recording.rocm_devices import RocmDevices, torch_is_for_rocm


def torch_built_for(monkeypatch, hip, file="/x/torch/__init__.py"):
    module = SimpleNamespace(version=SimpleNamespace(hip=hip, cuda=None), __file__=file)
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.delenv("OPSCOPE_ROCTRACER", raising=False)


def test_a_path_that_was_given_is_the_only_one(monkeypatch):
    monkeypatch.setenv("OPSCOPE_ROCTRACER", "/here/libroctracer64.so")
    assert RocmDevices().candidates() == ["/here/libroctracer64.so"]
    assert torch_is_for_rocm()


def test_torchs_own_and_rocms_folders_come_before_the_loaders(monkeypatch, tmp_path):
    torch_built_for(monkeypatch, "6.2", str(tmp_path / "torch" / "__init__.py"))
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "rocm"))
    for folder in (tmp_path / "torch" / "lib", tmp_path / "rocm" / "lib"):
        folder.mkdir(parents=True)
        (folder / "libroctracer64.so").touch()
    found = RocmDevices().candidates()
    assert found == [
        str(tmp_path / "torch" / "lib" / "libroctracer64.so"),
        str(tmp_path / "rocm" / "lib" / "libroctracer64.so"),
        "libroctracer64.so",
        "libroctracer64.so.4",
    ]


def test_only_a_torch_for_rocm_means_rocm(monkeypatch):
    torch_built_for(monkeypatch, None)
    assert not torch_is_for_rocm()
    torch_built_for(monkeypatch, "6.2.1")
    assert torch_is_for_rocm()
    monkeypatch.delitem(sys.modules, "torch")
    assert not torch_is_for_rocm()


def test_the_kind_is_chosen_once_it_is_asked_for(monkeypatch):
    chosen = []
    monkeypatch.setattr(
        gpu_collecting._native, "record_rocm_devices", lambda: chosen.append("rocm")
    )
    for is_rocm, kind in ((False, CudaDevices), (True, RocmDevices)):
        monkeypatch.setattr(gpu_collecting, "torch_is_for_rocm", lambda is_rocm=is_rocm: is_rocm)
        gpu_collecting.devices.cache_clear()
        assert isinstance(gpu_collecting.devices(), kind)
        assert gpu_collecting.devices() is gpu_collecting.devices()
    gpu_collecting.devices.cache_clear()
    assert chosen == ["rocm"]


def test_it_says_what_to_do_where_nothing_is_found(monkeypatch):
    torch_built_for(monkeypatch, "6.2", None)
    monkeypatch.setenv("ROCM_PATH", "/nowhere")
    kind = rocm_devices.RocmDevices()
    assert kind.candidates() == ["libroctracer64.so", "libroctracer64.so.4"]
    assert "OPSCOPE_ROCTRACER" in kind.advice()
    assert (kind.may_share(), kind.tool_around()) == (True, "")
