"""Where CUPTI is looked for, and what is advised where it is not found."""

import sys
from types import SimpleNamespace

import pytest

from opscope.recording.gpu.devices import advice, cupti_candidates


@pytest.fixture
def torch_built_for(monkeypatch, tmp_path):
    monkeypatch.delenv("OPSCOPE_CUPTI", raising=False)
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)

    def build(cuda=None, hip=None):
        file = str(tmp_path / "torch" / "__init__.py")
        module = SimpleNamespace(version=SimpleNamespace(cuda=cuda, hip=hip), __file__=file)
        monkeypatch.setitem(sys.modules, "torch", module)

    return build


def test_a_path_that_was_given_is_the_only_one(monkeypatch):
    monkeypatch.setenv("OPSCOPE_CUPTI", "/here/libcupti.so")
    assert cupti_candidates() == ["/here/libcupti.so"]


def test_torchs_own_packages_come_first_and_only_its_release_fits(torch_built_for, tmp_path):
    torch_built_for(cuda="12.8")
    folder = tmp_path / "nvidia" / "cuda_cupti" / "lib"
    folder.mkdir(parents=True)
    for name in ("libcupti.so.12", "libcupti.so.13"):
        (folder / name).touch()
    found = cupti_candidates()
    assert found == [str(folder / "libcupti.so.12"), "libcupti.so.12", "libcupti.so"]


def test_the_advice_names_the_vendor_that_is_not_supported(torch_built_for):
    torch_built_for(cuda="12.8")
    assert "OPSCOPE_CUPTI" in advice()
    torch_built_for(hip="6.2")
    assert "ROCm" in advice() and "OPSCOPE_CUPTI" not in advice()
