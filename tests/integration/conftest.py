"""A small network, and a CUPTI without a GPU for tests of device activity."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tests.support.fake_cupti import FakeCupti, build_fake, header_folders

from opscope.recording.gpu import devices as gpu_devices


@pytest.fixture
def model() -> torch.nn.Module:
    return torch.nn.Linear(8, 8)


@pytest.fixture
def optimizer(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01)


@pytest.fixture(scope="session")
def cupti_library() -> str:
    folders = header_folders()
    if not folders:
        pytest.skip("no CUPTI headers: `make install` gets them")
    if torch.cuda.is_available():
        pytest.skip("this machine has a real one: see tests/gpu")
    return str(build_fake(folders[sorted(folders)[0]]))


@pytest.fixture
def fake(cupti_library: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCupti]:
    monkeypatch.setenv("OPSCOPE_CUPTI", cupti_library)
    # A torch built for CUDA allows for a subscription of its own, which the fake does not play.
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(gpu_devices, "_reported", set())  # else only the first test is told
    gpu_devices.set_up_gpu.cache_clear()
    fake = FakeCupti(cupti_library)
    fake.reset()
    yield fake
    fake.reset()
    gpu_devices.set_up_gpu.cache_clear()
