"""One table says of a name its cause and what it waits for."""

from opscope.columns.causes import Cause
from opscope.columns.codes import WaitsFor
from opscope.timeline.waits import cause_of_name, is_idle, waits_for_device


def test_loops_of_events_idle_and_sleepers_do_not():
    assert is_idle("selectors.py(451): select")
    assert is_idle("<built-in method poll of select.epoll object at 0x7f>")
    assert not is_idle("<built-in function sleep>")
    assert not is_idle("aten::mm")


def test_python_that_waits_for_a_device_waits_for_no_lock():
    for name in ("<built-in function _cuda_synchronize>", "cudaStreamSynchronize"):
        assert cause_of_name(name) == (Cause.DEVICE, WaitsFor.OTHER)
        assert waits_for_device(name)
    assert cause_of_name("cudaMemcpy") == (Cause.DEVICE, WaitsFor.NOTHING)
    assert not waits_for_device("<built-in method acquire of _thread.lock object at 0x7f>")
