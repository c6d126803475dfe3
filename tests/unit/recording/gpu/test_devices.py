"""Finding CUPTI, and collecting device activity, with devices of another kind than CUDA's too."""

import sys
from types import SimpleNamespace

import pytest

from opscope.recording import ledger
from opscope.recording.gpu import devices as gpu_devices
from opscope.recording.gpu.devices import CudaDevices


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
    assert CudaDevices().candidates() == ["/here/libcupti.so"]


def test_torchs_own_packages_come_first_and_only_its_release_fits(torch_built_for, tmp_path):
    torch_built_for(cuda="12.8")
    folder = tmp_path / "nvidia" / "cuda_cupti" / "lib"
    folder.mkdir(parents=True)
    for name in ("libcupti.so.12", "libcupti.so.13"):
        (folder / name).touch()
    found = CudaDevices().candidates()
    assert found == [str(folder / "libcupti.so.12"), "libcupti.so.12", "libcupti.so"]


def test_the_advice_names_the_vendor_that_is_not_supported(torch_built_for):
    torch_built_for(cuda="12.8")
    assert "OPSCOPE_CUPTI" in CudaDevices().advice()
    torch_built_for(hip="6.2")
    assert "ROCm" in CudaDevices().advice() and "OPSCOPE_CUPTI" not in CudaDevices().advice()


class Xpus:
    """Devices that a library called XTRACE reports on."""

    library = "XTRACE"

    def __init__(self):
        self.tool = ""
        self.shares = False
        self.waits = 0
        self.lost = False

    def candidates(self):
        return ["libxtrace.so"]

    def advice(self):
        return "Install XTRACE."

    def may_share(self):
        return self.shares

    def tool_around(self):
        return self.tool

    def are_lost(self):
        return self.lost

    def wait(self):
        self.waits += 1

    def properties(self):
        return [{"id": 0, "name": "XPU 0"}]


class Core:
    """The native core's part: what it was asked for."""

    def __init__(self):
        self.asked = []
        self.refuses = ""
        self.is_wanted = False

    def set_gpu_candidates(self, paths):
        self.asked.append(paths)

    def configure_gpu(self, may_share=False, also=0):
        self.asked.append(may_share)
        return self.refuses

    def gpu_is_wanted(self):
        return self.is_wanted


@pytest.fixture
def core(monkeypatch):
    core = Core()
    monkeypatch.setattr(gpu_devices, "_native", core)
    monkeypatch.setattr(gpu_devices, "_end_noting_at_exit", lambda: None)  # once a process
    monkeypatch.setattr(gpu_devices, "_reported", set())
    gpu_devices.set_up_gpu.cache_clear()
    yield core
    gpu_devices.set_up_gpu.cache_clear()


@pytest.fixture
def xpus(monkeypatch):
    xpus = Xpus()
    for module in (gpu_devices, ledger):
        monkeypatch.setattr(module, "devices", lambda: xpus)
    return xpus


def test_the_core_is_told_where_the_library_may_be_and_whether_to_share_it(core, xpus):
    xpus.shares = True
    assert gpu_devices.begin_gpu() == ""
    assert core.asked == [["libxtrace.so"], True]


def test_what_cannot_be_recorded_is_told_once_in_the_words_of_the_kind(core, xpus, capfd):
    core.refuses = "XTRACE was not found"
    assert gpu_devices.begin_gpu() == "XTRACE was not found"
    gpu_devices.begin_gpu()
    told = capfd.readouterr().err
    assert told.count("GPU activity is not recorded: XTRACE was not found.") == 1
    assert told.rstrip().endswith("Install XTRACE.")


def test_a_tool_that_uses_the_library_is_named_and_not_shared_with(core, xpus):
    xpus.shares, xpus.tool, core.refuses = True, "XView", "somebody is there"
    assert gpu_devices.begin_gpu() == (
        "XView already uses XTRACE in this process (somebody is there)"
    )
    assert core.asked[-1] is False


def test_the_last_window_waits_for_the_devices_and_leaves_the_library(core, xpus):
    core.is_wanted = True
    gpu_devices.end_gpu()
    assert (xpus.waits, core.asked) == (0, [])
    core.is_wanted = False
    gpu_devices.end_gpu()
    assert (xpus.waits, core.asked) == (1, [False])


def test_a_forked_child_leaves_the_library_alone_and_says_so_to_nobody(core, xpus, capfd):
    xpus.lost = True
    assert "was forked from one that used CUDA" in gpu_devices.begin_gpu()
    assert (core.asked, capfd.readouterr().err) == ([], "")
