"""Collecting device activity, with devices of another kind than CUDA's."""

import pytest

from opscope.recording.gpu import account as gpu_account
from opscope.recording.gpu import collecting as gpu_collecting


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
    monkeypatch.setattr(gpu_collecting, "_native", core)
    monkeypatch.setattr(gpu_collecting, "_end_noting_at_exit", lambda: None)  # once a process
    monkeypatch.setattr(gpu_collecting, "_reported", set())
    gpu_collecting.set_up_gpu.cache_clear()
    yield core
    gpu_collecting.set_up_gpu.cache_clear()


@pytest.fixture
def xpus(monkeypatch):
    xpus = Xpus()
    for module in (gpu_collecting, gpu_account):
        monkeypatch.setattr(module, "devices", lambda: xpus)
    return xpus


def test_the_core_is_told_where_the_library_may_be_and_whether_to_share_it(core, xpus):
    xpus.shares = True
    assert gpu_collecting.begin_gpu() == ""
    assert core.asked == [["libxtrace.so"], True]


def test_what_cannot_be_recorded_is_told_once_in_the_words_of_the_kind(core, xpus, capfd):
    core.refuses = "XTRACE was not found"
    assert gpu_collecting.begin_gpu() == "XTRACE was not found"
    gpu_collecting.begin_gpu()
    told = capfd.readouterr().err
    assert told.count("GPU activity is not recorded: XTRACE was not found.") == 1
    assert told.rstrip().endswith("Install XTRACE.")


def test_a_tool_that_uses_the_library_is_named_and_not_shared_with(core, xpus):
    xpus.shares, xpus.tool, core.refuses = True, "XView", "somebody is there"
    assert gpu_collecting.begin_gpu() == (
        "XView is looking at this process, and it uses XTRACE too (somebody is there)"
    )
    assert core.asked[-1] is False


def test_the_last_window_waits_for_the_devices_and_leaves_the_library(core, xpus):
    core.is_wanted = True
    gpu_collecting.end_gpu()
    assert (xpus.waits, core.asked) == (0, [])
    core.is_wanted = False
    gpu_collecting.end_gpu()
    assert (xpus.waits, core.asked) == (1, [False])


def test_a_forked_child_leaves_the_library_alone_and_says_so_to_nobody(core, xpus, capfd):
    xpus.lost = True
    assert "was forked from one that used CUDA" in gpu_collecting.begin_gpu()
    assert (core.asked, capfd.readouterr().err) == ([], "")
