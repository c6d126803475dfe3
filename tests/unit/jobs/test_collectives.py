"""Collectives of ranks matched, and who waited for whom; what cannot be matched is counted."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.jobs.collective_kinds import collective_kinds, rank_waits
from opscope.jobs.collectives import NONE, job_collectives
from opscope.storage.partition import Partition
from support.build_trace import build_trace, span
from support.job_of_collectives import rank_trace

US = 1_000


def found_of(*traces, **options):
    parts = [Partition("rank", number) for number in range(len(traces))]
    return job_collectives(zip(parts, traces, strict=True), **options)


def all_reduces(starts, end_us=100, every_us=200, count=6, **options):
    """A job whose ranks come to each all-reduce at ``starts``, and have it at ``end_us``."""
    ranks = range(len(starts))
    return [
        rank_trace(
            ranks,
            [
                ("allreduce_", (), at + start, at + start + 10, at + end_us)
                for at in np.arange(count) * every_us
            ],
            **options,
        )
        for start in starts
    ]


def test_who_waits_for_whom_and_how_long():
    found = found_of(*all_reduces([0, 40, 20]))
    assert len(found) == 6 and set(found.name) == {"allreduce"}
    assert found.last.tolist() == [1] * 6
    waits = {process: found.wait_ns[found.process == process].tolist() for process in range(3)}
    assert waits == {0: [40 * US] * 6, 1: [0] * 6, 2: [20 * US] * 6}
    assert found.transfer_ns.tolist() == [50 * US] * 6
    assert found.skew_ns.tolist() == [40 * US] * 6
    assert found.size_bytes.tolist() == [1000] * 6
    assert found.unmatched == dict.fromkeys(found.unmatched, 0)


def test_bandwidth_is_as_nccl_tests_define_it():
    found = found_of(*all_reduces([0, 0, 0, 0]))
    algorithm = 1000 / 90e-6
    assert found.algorithm_bandwidth == pytest.approx(np.full(6, algorithm))
    assert found.bus_bandwidth == pytest.approx(np.full(6, algorithm * 2 * 3 / 4))


def test_kinds_and_ranks_add_up_to_the_whole():
    found = found_of(*all_reduces([0, 40, 20]))
    (kind,) = collective_kinds(found)
    assert (kind.count, kind.last, kind.last_share) == (6, Partition("rank", 1), 1.0)
    assert kind.wait_ns == pytest.approx(20 * US) and kind.transfer_ns == 50 * US
    waits = rank_waits(found)
    assert sum(one.wait_ns for one in waits) == int(found.wait_ns.sum())
    assert [one.awaited for one in waits] == [0, 6, 0]
    assert waits[1].awaited_ns == int(found.wait_ns.sum())
    assert sum(one.exposed_ns for one in waits) == int(found.exposed_ns.sum())
    unasked = found_of(*all_reduces([0, 40, 20]), with_exposed=False)
    assert unasked.exposed_ns.tolist() == [0] * 18


def test_recordings_that_begin_at_different_times_are_put_beside_each_other():
    first, second = all_reduces([0, 30])
    late = rank_trace(
        range(2),
        [("allreduce_", (), at + 30, at + 40, at + 100) for at in np.arange(2, 6) * 200],
        before=2,
    )
    found = found_of(first, late)
    assert len(found) == 4
    assert found.wait_ns[found.process == 0].tolist() == [30 * US] * 4
    assert found.unmatched["calls that other ranks did not record, or that cannot be matched"] == 2
    assert len(found_of(first, second)) == 6


def test_a_broadcast_makes_others_wait_for_its_root_alone():
    root, other = (
        rank_trace(range(2), [("broadcast_", (0, 0), call, call + 10, 200)]) for call in (80, 0)
    )
    found = found_of(root, other)
    assert found.wait_ns[np.argsort(found.process)].tolist() == [0, 80 * US]
    assert found.last.tolist() == [0]
    early_root = found_of(*reversed([root, other]))
    # Now the root is there first: nobody else is waited for.
    assert early_root.last.tolist() == [0]


def test_messages_are_matched_by_who_sends_them_to_whom():
    sender = rank_trace(range(2), [("send", (1, 0), 50, 60, 70), ("send", (1, 0), 150, 160, 170)])
    receiver = rank_trace(range(2), [("recv_", (0, 0), 0, 1, 75), ("recv_", (0, 0), 100, 101, 175)])
    found = found_of(sender, receiver)
    assert len(found) == 2
    assert found.wait_ns[found.process == 1].tolist() == [59 * US] * 2
    assert found.wait_ns[found.process == 0].tolist() == [0, 0]


def test_one_machine_ahead_by_a_minute_changes_nothing():
    def rank_on(host, start, ahead_us, drift):
        times = np.array([start, start + 10, 100]) + 200 * np.arange(40)[:, None]
        calls = [("allreduce_", (), *row) for row in times * (1 + drift) + ahead_us]
        return rank_trace(range(2), calls, metadata={"host_name": host, "boot_id": host})

    found = found_of(rank_on("a", 0, 0, 0), rank_on("b", 40, 60e6, 20e-6))
    assert len(found) == 40
    bound = found.bound_ns
    assert np.isfinite(bound).all() and (bound > 0).all()
    wait = found.wait_ns[found.process == 0]
    assert (np.abs(wait - 40 * US) <= bound).all()


def test_where_clocks_are_not_known_nothing_is_reported_of_waiting():
    traces = [
        rank_trace(
            range(2),
            [("broadcast_", (0, 0), at, at + 10, at + 50) for at in (0, 100)],
            metadata={"host_name": host},
        )
        for host in "ab"
    ]
    found = found_of(*traces)
    assert len(found) == 2 and np.isinf(found.bound_ns).all()
    assert found.wait_ns.tolist() == [0] * 4
    assert found.transfer_ns.tolist() == found.skew_ns.tolist() == [NONE] * 2
    assert "could not be aligned" in repr(found)


def test_what_cannot_be_matched_is_counted_by_why():
    alone = rank_trace([0, 7], [("barrier", (), 0, 1, 2)])
    unknown = rank_trace(range(2), [("barrier", (), 0, 1, 2)], groups={"0xff": {}})
    silent = rank_trace(range(2), [("barrier", (), 0, None, None)])
    strays = [
        span("gloo:barrier", 0, 1, "pool", is_async=True),
        span("gloo:send", 2, 3, "pool", is_async=True),
    ]
    stray = build_trace(strays)
    groups = {"0xab": {"pg_name": "0", "ranks": [0, 1]}}
    message = build_trace([span("c10d::send", 0, 1)], metadata={"process_groups": groups})
    found = found_of(alone, unknown, silent, stray, message)
    assert len(found) == 0
    assert found.unmatched == {
        "calls of unknown groups: record arguments (--shapes)": 1,
        "messages with an unknown peer: record arguments (--shapes)": 1,
        "calls of groups with a single recorded rank": 2,
        "calls that other ranks did not record, or that cannot be matched": 0,
        "calls without a transfer": 2,
        "transfers without a call": 2,
    }
    assert "2 transfers without a call" in repr(found)


def test_ranks_that_are_not_looked_at_are_named():
    first, _, third = all_reduces([0, 40, 20])
    parts = [Partition("rank", number) for number in (0, 2)]
    found = job_collectives(zip(parts, [first, third], strict=True))
    assert found.absent_ranks == [1]
    assert "Groups have rank 1 too, which is not included" in repr(found)
    assert found_of(*all_reduces([0, 40, 20])).absent_ranks == []


SAID = {
    "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 10, "Group size": 2,
    "Process Group Name": "0", "Global rank start": 0, "Global rank stride": 1, "Seq": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", ["In msg nelems", "Seq", "Group size", "Global rank start"])
def test_any_number_that_a_file_says_is_taken_for_one(name):
    for number in (10**9, 10**30):
        trace = build_trace([span("record_param_comms", 0, 10, keywords={**SAID, name: number})])
        assert len(found_of(trace, trace).processes) == 2


@pytest.mark.parametrize("begun", ["x", [None], [[1]], [["x", 2]], [[10**40, 3]], [[1, 2, 3]]])
def test_moments_that_make_no_sense_are_none(begun):
    groups = {"0xab": {"pg_name": "0", "ranks": [0, 1], "begun": begun}}
    traces = [rank_trace(range(2), [("barrier", (), 0, 1, 2)], groups=groups) for _ in range(2)]
    assert len(found_of(*traces)) == 1


def test_facts_about_a_machine_identify_it():
    about = {"boot_id": ["x"], "host_name": ["here"]}
    calls = [("barrier", (), 0, 1, 2)]
    found = found_of(*(rank_trace(range(2), calls, metadata=about) for _ in range(2)))
    assert len(found.clocks.machines) == 1
