"""Calls of one process with the transfers that came of them, on the processor and on devices."""

from opscope.analysis.collectives.calls import NONE
from opscope.analysis.collectives.process_collectives import ProcessGroup, process_collectives
from support.build_trace import ORIGIN_NS, build_trace, kernel, span, tensor
from support.job_of_collectives import rank_trace, with_objects

US = 1_000


def test_each_call_has_the_transfer_that_came_of_it():
    found = process_collectives(
        rank_trace(
            range(2),
            [
                ("allreduce_", (), 0, 10, 90),
                ("allreduce_", (), 20, 25, 95),
                ("barrier", (), 30, 40, 60),
            ],
            before=4,
        )
    )
    assert len(found) == 3 and found.name == ("allreduce", "allreduce", "barrier")
    assert (found.start_ns - ORIGIN_NS).tolist() == [10 * US, 25 * US, 40 * US]
    assert (found.end_ns - ORIGIN_NS).tolist() == [90 * US, 95 * US, 60 * US]
    assert found.number.tolist() == [5, 6, 7]
    assert found.groups == (ProcessGroup("0", (0, 1)),)
    assert (found.strays, found.silent) == (0, 0)


def test_what_a_backend_does_instead_is_the_transfer():
    """gloo reduces to all ranks where a part of the result is enough."""
    calls = [("_reduce_scatter_base_", (), 0, 10, 40), ("allreduce_", (), 50, 60, 90)]
    found = process_collectives(rank_trace(range(2), calls))
    assert (found.strays, found.silent) == (0, 0)
    assert (found.start_ns - ORIGIN_NS).tolist() == [10 * US, 60 * US]


def two_groups(numbers, transfers):
    """Of calls of two groups, (time, group, elements), and of transfers, (begin, end, thread,
    elements), when the transfer of each call ended; nothing where no call has it."""
    groups = {
        address: {"pg_name": name, "pg_desc": "", "ranks": [0, 1], "begun": [[1, 0]]}
        for address, name in ((f"0x{number}", str(number)) for number in range(40))
    }
    spans = [
        span("c10d::allreduce_", at, at + 1, inputs=[[tensor(size)], f"ProcessGroup 0x{group}"])
        for at, group, size in numbers
    ] + [
        span("gloo:all_reduce", begin, end, thread, is_async=True, inputs=[tensor(size)])
        for begin, end, thread, size in transfers
    ]
    spans.sort(key=lambda one: one.start)
    trace = with_objects(build_trace(spans, metadata={"process_groups": groups}))
    return ((process_collectives(trace).end_ns - ORIGIN_NS) / US).tolist()


def test_a_group_that_is_seldom_called_has_its_threads_too():
    """What the other group called last, on another thread, is not what they did."""
    calls, transfers = [], []
    for at in range(0, 2000, 100):
        calls.append((at, 0, 70))
        transfers.append((at + 30, at + 60, f"busy-{at // 100 % 2}", 70))
        if at % 500 == 0:
            calls.append((at - 5 if at else at, 1, 4))  # another thread calls just before
            transfers.append((at + 40, at + 50, f"seldom-{at // 500 % 2}", 4))
    calls.sort()
    ends = two_groups(calls, transfers)
    for (at, group, _), end in zip(calls, ends, strict=True):
        assert end == (at + 5) // 100 * 100 + (50 if group else 60), (at, group)


def test_messages_do_not_count_among_what_all_share():
    found = process_collectives(
        rank_trace(
            range(3),
            [("barrier", (), 0, 1, 2), ("send", (1, 0), 10, 11, 12), ("barrier", (), 20, 21, 22)],
        )
    )
    assert found.number.tolist() == [1, NONE, 2]
    assert found.peer.tolist() == [-1, 1, -1]


def test_what_was_not_recorded_between_two_moments_is_counted():
    begun = [[ORIGIN_NS, 10], [ORIGIN_NS + 50 * US, 15]]
    groups = {"0xab": {"pg_name": "0", "ranks": [0, 1], "begun": begun}}
    calls = [("barrier", (), at, at + 1, at + 2) for at in (10, 20, 60)]
    found = process_collectives(rank_trace(range(2), calls, groups=groups))
    # Five began between the moments, and two of them were recorded.
    assert found.number.tolist() == [11, 12, 16]


def test_without_arguments_the_only_group_is_meant():
    groups = {"0xab": {"pg_name": "0", "ranks": [0, 1], "begun": [[ORIGIN_NS, 7]]}}
    spans = [span("c10d::barrier", 0, 1), span("c10d::barrier", 2, 3)]
    found = process_collectives(build_trace(spans, metadata={"process_groups": groups}))
    assert found.number.tolist() == [8, 9] and found.groups == (ProcessGroup("0", (0, 1)),)
    two = {**groups, "0xcd": {**groups["0xab"], "pg_name": "1"}}
    found = process_collectives(build_trace(spans, metadata={"process_groups": two}))
    assert found.number.tolist() == [NONE, NONE] and found.groups == (ProcessGroup("", ()),)


def test_what_torch_profiler_says_of_the_job_tells_its_only_group():
    spans = [span("record_param_comms", 0, 1, keywords={"Collective name": "allreduce"})]

    def group(**job):
        about = {"distributedInfo": {"world_size": 3, **job}}
        return process_collectives(build_trace(spans, metadata=about)).groups[0]

    config = [{"pg_name": "7", "ranks": [0, 1, 2]}]
    assert group(pg_config=config) == ProcessGroup("7", (0, 1, 2))
    assert group(pg_count=1) == ProcessGroup("0", (0, 1, 2))
    assert group() == group(pg_count=2) == ProcessGroup("", ())
    assert group(pg_config=[*config, *config]) == ProcessGroup("", ())


def nccl(rename=False):
    keywords = {
        "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 100,
        "Out msg nelems": 100, "Process Group Name": "0", "Group size": 2,
        "Global rank start": 0, "Global rank stride": 1, "Seq": 41,
    }  # fmt: skip
    spans = [
        span("record_param_comms", 0, 10, keywords=keywords),
        span("cudaLaunchKernel", 2, 4),
        span("aten::mm", 20, 30),
        span("cudaLaunchKernel", 22, 24),
    ]
    name = "my_own_all_reduce" if rename else "ncclDevKernel_AllReduce"
    gpu = [
        kernel(name, 10, 110, launch=1, stream=9),
        kernel("gemm", 40, 70, launch=3),
        kernel("ncclKernel_Broadcast", 300, 310, launch=-1),
    ]
    return process_collectives(build_trace(spans, gpu=gpu))


def test_kernels_are_of_the_call_that_launched_them_whatever_they_are_called():
    for rename in (False, True):
        found = nccl(rename)
        assert (found.start_ns - ORIGIN_NS).tolist() == [10 * US]
        assert (found.end_ns - ORIGIN_NS).tolist() == [110 * US]
        assert found.number.tolist() == [41] and found.groups == (ProcessGroup("0", (0, 1)),)
        assert found.sent_bytes.tolist() == [400]
        assert found.exposed_ns.tolist() == [70 * US], "without what the device computed meanwhile"
        assert (found.strays, found.silent) == (1, 0), "one that no call launched"
