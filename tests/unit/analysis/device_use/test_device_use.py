"""How busy devices are, why they rest, and whose work they do, on pictures of timelines."""

import numpy as np
import pytest
from tests.support.build_trace import allocation, build_trace, kernel, span

from opscope.analysis.device_use.device_use import find_device_use
from opscope.analysis.device_use.idle import Idle
from opscope.columns.codes import EventKind, GpuKind
from opscope.errors import UsageError

CALL = {"kind": EventKind.RUNTIME_CALL}


def around(end, thread="main"):
    return span("step", 0, end, thread, kind=EventKind.ANNOTATION)


def launch(start, end=None, thread="main", name="cudaLaunchKernel"):
    return span(name, start, start + 2 if end is None else end, thread, **CALL)


def use_of(spans, gpu, **more):
    return find_device_use(build_trace(spans, gpu=gpu, **more), "all")


def idle_us(found, device=0):
    return {cause: time / 1000 for cause, time in found.devices[device].idle_ns.items()}


def gap_after(what, *, until=80, thread="main"):
    """One kernel until 20, what the host does then, and the next launched at ``until``."""
    spans = [around(100, thread), launch(5, thread=thread)]
    spans += [*what, launch(until, thread=thread)]
    second = len(spans) - 1
    return use_of(
        spans, [kernel("a", 10, 20, launch=1), kernel("b", until + 5, 100, launch=second)]
    )


def test_operators_before_a_launch_are_launching():
    # the operator 59, and 5 on the way; from 5 to 10 the first was on its way
    assert idle_us(gap_after([span("aten::mm", 20, 79)])) == {
        Idle.LAUNCHING: 69.0,
        Idle.HOST: 6.0,
    }


def test_an_operator_that_computes_on_the_host_is_waiting_for_that():
    spans = [
        around(1500),
        launch(5),
        span("aten::randn", 20, 1300),
        span("aten::normal_", 21, 1299),
        span("aten::view", 1310, 1390),  # short, and on the way to a launch
        launch(1400),
    ]
    gpu = [kernel("a", 10, 20, launch=1), kernel("b", 1405, 1500, launch=5)]
    assert idle_us(use_of(spans, gpu)) == {
        Idle.LAUNCHING: 5.0 + 80.0 + 5.0,
        Idle.HOST: 5.0 + 1280.0 + 10.0 + 10.0,
    }


def test_loading_waiting_for_ranks_and_all_else_of_the_host_are_distinguished():
    loading = span("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 20, 80)
    assert idle_us(gap_after([loading]))[Idle.DATA] == 60.0
    assert idle_us(gap_after([span("c10d::allreduce_", 20, 80)]))[Idle.COLLECTIVE] == 60.0
    working = span("work", 20, 80, kind=EventKind.PYTHON_CALL, frame=("train.py", 3, "work"))
    assert idle_us(gap_after([working]))[Idle.HOST] >= 60.0
    assert idle_us(gap_after([]))[Idle.HOST] >= 60.0


def test_what_is_launched_after_the_device_was_drained_is_due_to_the_synchronisation():
    waiting = launch(15, 30, name="cudaStreamSynchronize")
    found = idle_us(gap_after([waiting, span("aten::mm", 30, 79)]))
    assert found[Idle.SYNCHRONISATION] == 59.0  # 10 waiting, 49 in operators afterwards
    late = launch(25, 30, name="cudaStreamSynchronize")  # the device was done before
    found = idle_us(gap_after([late, span("aten::mm", 30, 79)]))
    assert (found[Idle.SYNCHRONISATION], found[Idle.LAUNCHING]) == (5.0, 59.0)


def test_work_that_was_launched_before_a_gap_was_waiting_on_the_device():
    found = use_of(
        [around(100), launch(1), launch(3)],
        [kernel("a", 10, 20, launch=1), kernel("b", 50, 100, launch=2)],
    )
    assert idle_us(found) == {Idle.HOST: 1.0, Idle.LAUNCHING: 9.0, Idle.QUEUED: 30.0}


def test_a_launch_that_is_not_known_is_reported():
    found = use_of([around(100)], [kernel("a", 50, 60, launch=-1)])
    assert idle_us(found)[Idle.UNKNOWN] == 50.0
    assert found.devices[0].without_launch == 1
    assert found.devices[0].streams[0].delay_median_ns == -1
    assert any("the launch of 1 activities was not recorded" in note for note in found.notes)
    assert any("no runtime calls were recorded" in note for note in found.notes)


def test_what_is_hidden_behind_computing():
    gpu = [
        kernel("gemm", 10, 50, launch=1),
        kernel("ncclDevKernel_AllReduce", 30, 70, launch=1, stream=20),
        kernel("Memcpy HtoD (Pinned -> Device)", 40, 80, launch=1, stream=9, kind=GpuKind.COPY),
    ]
    (device,) = use_of([around(100), launch(1)], gpu).devices
    assert (device.computing_ns, device.communicating_ns, device.copying_ns) == (
        40_000, 40_000, 40_000,
    )  # fmt: skip
    assert (device.hidden_communicating_ns, device.hidden_copying_ns) == (20_000, 10_000)
    assert (device.busy_ns, device.work_ns) == (70_000, 120_000)


def test_delays_and_depths_of_streams():
    spans = [around(100), *(launch(at) for at in (10, 20, 30, 50))]
    gpu = [
        kernel("a", 14, 45, launch=1),
        kernel("b", 45, 48, launch=2),
        kernel("c", 48, 49, launch=3),
        kernel("d", 52, 60, launch=4, stream=8),
    ]
    first, second = use_of(spans, gpu).devices[0].streams
    assert (first.stream, first.work, first.launches, first.busy_ns) == (7, 3, 3, 35_000)
    assert (first.delay_median_ns, first.delay_max_ns) == (18_000, 25_000)
    assert (first.depth_max, first.depth_mean) == (2, pytest.approx((4 + 25 + 18) / 100))
    assert (second.stream, second.delay_median_ns, second.depth_max) == (8, 2_000, 1)


def test_work_without_a_request():
    spans = [
        launch(0),
        span("aten::mm", 5, 20),
        launch(6, 9),
        span("cuLaunchKernel", 7, 8, **CALL),
    ]
    gpu = [
        kernel("nobody's", 10, 12, launch=0),
        kernel("mm", 12, 14, launch=2),
        kernel("mm in the driver", 14, 15, launch=3),
        kernel("in a graph", 15, 20, launch=0, capture=1, graph_node=5),
    ]
    (device,) = use_of(spans, gpu).devices
    assert (device.without_owner, device.without_owner_ns, device.without_launch) == (1, 2_000, 0)


def modules_trace(gpu):
    calls = [
        span("nn.Module: Net_0", 0, 50, kind=EventKind.MODULE_CALL, module="Net"),
        span("nn.Module: Linear_0", 5, 30, kind=EventKind.MODULE_CALL, module="Linear"),
        span("aten::linear", 6, 20, sequence_number=3),
        launch(7),
        launch(35),
        span("AddmmBackward0", 60, 80, "autograd", sequence_number=3, forward_thread=1),
        launch(65, thread="autograd"),
    ]
    return build_trace(calls, gpu=gpu, links=[(2, 5)])


def test_modules_have_what_their_forward_and_backward_launch():
    gpu = [
        kernel("linear", 10, 20, launch=3),
        kernel("of the net itself", 40, 45, launch=4),
        kernel("backward", 70, 90, launch=6),
    ]
    net, linear = find_device_use(modules_trace(gpu), "all").modules
    assert (net.depth, net.forward_ns, net.own_forward_ns) == (0, 15_000, 5_000)
    assert (linear.depth, linear.forward_ns, linear.own_forward_ns) == (1, 10_000, 10_000)
    assert (net.backward_ns, net.own_backward_ns) == (linear.backward_ns, 0)
    assert linear.own_backward_ns == linear.backward_ns == 20_000
    assert net.graph_ns == 0


def test_nodes_of_graphs_count_where_they_were_captured():
    gpu = [
        kernel("forward", 81, 85, launch=4, capture=3, graph_node=1),
        kernel("backward", 85, 90, launch=4, capture=6, graph_node=2),
        kernel("unknown", 90, 95, launch=4, graph_node=3),
    ]
    net, linear = find_device_use(modules_trace(gpu), "all").modules
    assert (linear.own_forward_ns, linear.own_backward_ns, linear.graph_ns) == (4_000, 5_000, 9_000)
    assert (net.own_forward_ns, net.forward_ns) == (0, 4_000)


def test_memory_that_is_reserved_and_not_used():
    cuda = {"device_type": 1, "device_index": 0}
    found = use_of(
        [around(40), launch(1)],
        [kernel("a", 10, 20, launch=1)],
        allocations=[
            allocation(0, 50),
            allocation(0, 100, total_reserved_bytes=400, **cuda),
            allocation(10, 100, total_reserved_bytes=400, **cuda),
            allocation(20, -150, total_reserved_bytes=400, **cuda),
        ],
    )
    (memory,) = found.memory
    assert (memory.device, memory.peak_used_bytes, memory.peak_reserved_bytes) == (
        "cuda:0", 200, 400,
    )  # fmt: skip
    assert memory.used_then_bytes == 100
    assert memory.unused_share == pytest.approx(1 - (100 + 200) / 800)
    unreported = use_of(
        [around(40), launch(1)],
        [kernel("a", 10, 20, launch=1)],
        allocations=[allocation(0, 100, **cuda)],
    ).memory[0]
    assert (unreported.peak_reserved_bytes, unreported.unused_share) == (-1, -1.0)


def test_occupancy_by_time():
    sizes = {"block": [256, 1, 1], "registers_per_thread": 32}
    found = use_of(
        [around(40), launch(1)],
        [
            kernel("fills", 10, 30, launch=1, grid=[1000, 1, 1], **sizes),
            kernel("tiny", 30, 40, launch=1, grid=[1, 1, 1], **sizes),
        ],
        metadata={
            "deviceProperties": [
                {"id": 0, "numSms": 100, "maxThreadsPerMultiprocessor": 2048,
                 "regsPerMultiprocessor": 65536, "sharedMemPerMultiprocessor": 102400}
            ]
        },
    )  # fmt: skip
    assert found.devices[0].occupancy == pytest.approx((2 * 1.0 + 0.00125) / 3, abs=1e-3)
    assert not any("occupancy" in note for note in found.notes)


@pytest.mark.parametrize("seed", range(2))
def test_causes_and_work_add_up_to_the_time_whatever_happens(seed):
    random = np.random.default_rng(seed)
    at = np.sort(random.choice(5_000, 300, replace=False))
    kinds = random.integers(0, 3, 300)
    names = ("aten::mm", "cudaLaunchKernel", "cudaDeviceSynchronize")
    spans = [
        span(names[kind], int(start), int(start) + 1, kind=0 if kind == 0 else CALL["kind"])
        for start, kind in zip(at, kinds, strict=True)
    ]
    begin = random.integers(0, 5_000, 2_000)
    gpu = []
    for start in np.sort(begin).tolist():
        took, launched, stream, device = random.integers((0, -1, 0, 0), (9, 300, 4, 2)).tolist()
        where = {"launch": launched, "stream": stream, "device_index": device}
        gpu.append(kernel("k", start, start + took, **where))
    found = use_of(spans, gpu)
    for device in found.devices:
        assert sum(device.idle_ns.values()) + device.busy_ns == found.wall_ns
        assert min(device.idle_ns.values()) > 0
        assert sum(stream.work for stream in device.streams) == device.work
        assert max(stream.busy_ns for stream in device.streams) <= device.busy_ns <= device.work_ns


def test_nothing_recorded_is_reported_and_not_answered():
    found = use_of([span("aten::mm", 0, 10)], [])
    assert (found.devices, found.modules) == ((), ())
    assert "no device work was recorded" in found.notes[0]
    refused = {"gpu": {"unavailable": "no CUPTI"}}
    assert use_of([span("aten::mm", 0, 10)], [], metadata=refused).notes == (
        "no device work was recorded: no CUPTI",
    )
    assert "no device work" in find_device_use(build_trace([]), "all").notes[0]


def test_work_that_was_launched_before_the_part_has_its_launch_and_module():
    # GIVEN a start-up that launches all work there is, and steps in which the device does it
    spans = [span("nn.Module: Net_0", 0, 280, kind=EventKind.MODULE_CALL, module="Net")]
    spans += [launch(at) for at in range(100, 130, 5)]
    for end in range(300, 900, 100):
        spans.append(span("aten::mm", end - 70, end - 20))
        spans.append(span("Optimizer.step#SGD.step", end - 10, end, kind=EventKind.ANNOTATION))
    gpu = [kernel("k", 310 + 80 * n, 350 + 80 * n, launch=1 + n) for n in range(6)]
    trace = build_trace(sorted(spans, key=lambda one: one.start), gpu=gpu)
    everything = find_device_use(trace, "all")
    for part in (everything, find_device_use(trace, "steady")):
        assert [device.without_launch for device in part.devices] == [0]
        assert part.devices[0].streams[0].depth_max == 6
    steady = find_device_use(trace, "steady")
    (device,) = steady.devices
    assert steady.wall_ns < everything.wall_ns
    assert sum(device.idle_ns.values()) + device.busy_ns == steady.wall_ns
    assert 0 < device.streams[0].depth_mean <= 6
    assert [module.forward_ns for module in steady.modules] == [device.busy_ns]


def test_what_is_not_there_is_reported():
    with pytest.raises(UsageError):
        find_device_use(build_trace([span("aten::mm", 0, 10)]), "start-up")
    no_events = use_of([], [kernel("a", 50, 60, launch=-1)])
    assert idle_us(no_events) == {}, "no host to ask"
    notes = use_of([around(40), launch(1)], [kernel("a", 10, 20, launch=1)]).notes
    assert any("with_modules=True" in note for note in notes)
    assert any("profile_memory=True" in note for note in notes)
    assert any("occupancy is unknown" in note for note in notes)


def test_work_that_begins_before_its_launch_is_reported():
    spans = [around(100), launch(20), launch(50)]
    found = use_of(spans, [kernel("a", 15, 30, launch=1), kernel("b", 60, 70, launch=2)])
    (stream,) = found.devices[0].streams
    assert (stream.begun_early, stream.launches, stream.delay_max_ns) == (1, 2, 10_000)
    assert any("work of 1 launches began before them" in note for note in found.notes)
    on_time = gap_after([])
    assert on_time.devices[0].streams[0].begun_early == 0
    assert not any("began before" in note for note in on_time.notes)
