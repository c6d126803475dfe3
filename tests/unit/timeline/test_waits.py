"""One table says of a name its cause and what it waits for."""

from __future__ import annotations

from opscope.columns.causes import Cause
from opscope.columns.codes import WaitsFor
from opscope.timeline.waits import TimeKind, cause_of_name, time_kind, waits_for_device


def test_python_that_waits_for_a_device_waits_for_no_lock():
    for name in ("<built-in function _cuda_synchronize>", "cudaStreamSynchronize"):
        assert cause_of_name(name) == (Cause.DEVICE, WaitsFor.OTHER)
        assert waits_for_device(name)
    assert cause_of_name("cudaMemcpy") == (Cause.DEVICE, WaitsFor.NOTHING)
    assert not waits_for_device("<built-in method acquire of _thread.lock object at 0x7f>")


def test_collectives_of_every_interface_are_collectives():
    for name in (
        "_c10d_functional::wait_tensor",
        "_c10d_functional_autograd::all_to_all_single",
        "c10d_functional::all_reduce",
        "_dtensor::shard_dim_alltoall",
        "c10d::allreduce_",
    ):
        assert cause_of_name(name)[0] is Cause.COLLECTIVE, name


WAITING = (
    "<built-in method acquire of _thread.lock object at 0x7f>",
    "<built-in method acquire of _thread.RLock object at 0x7f>",
    "<built-in method poll of select.epoll object at 0x7f>",
    "<built-in method get of _queue.SimpleQueue object at 0x7f>",
    "<built-in method recv_into of _socket.socket object at 0x7f>",
    "<built-in function sleep>",
    "<built-in function waitpid>",
    "threading.py(611): wait",
    "/usr/lib/python3.11/selectors.py(451): select",
    "queue.py(154): get",
    "multiprocessing/connection.py(917): wait",
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
)
WORK = (
    "aten::mm",
    "<built-in method release of _thread.lock object at 0x7f>",
    "<built-in method get of dict object at 0x7f>",
    "<built-in function len>",
    "train.py(3): wait",
    "my_queue.py(154): get",
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "cudaLaunchKernel",
    "Optimizer.step#Adam.step",
)


STEPS = ("ProfilerStep#12", "ProfilerStep*")
HOOKS = ("torch/optim/optimizer.py(502): _optimizer_step_code",)


def test_names_are_waiting_work_steps_or_hooks():
    for kind, names in zip(TimeKind, (WORK, WAITING, STEPS, HOOKS), strict=True):
        assert [name for name in names if time_kind(name) is not kind] == []
