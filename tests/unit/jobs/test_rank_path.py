"""What had to wait for what across ranks: the slow one is on it, and it is as long as the job."""

import numpy as np
import pytest

from opscope.jobs.collectives import job_collectives
from opscope.jobs.rank_path import rank_path
from opscope.storage.partition import Partition
from support.job_of_collectives import rank_trace

US = 1_000


def path_of(*traces):
    parts = [Partition("rank", number) for number in range(len(traces))]
    return rank_path(job_collectives(zip(parts, traces, strict=True)))


def job(late, every_us=200, count=5, end_us=100):
    """Ranks come to each barrier so late, and do nothing else but wait in it."""
    starts = (np.arange(count) * every_us).tolist()
    return [
        rank_trace(
            range(len(late)),
            [("barrier", (), at + own, at + own, at + end_us) for at in starts],
        )
        for own in late
    ]


def test_the_rank_that_others_wait_for_is_on_it():
    path = path_of(*job([0, 60, 20]))
    # Until rank 1 comes to the first barrier, and four times from there to the next one.
    assert path.own_ns.tolist() == [0, (60 + 4 * 160) * US, 0]
    assert path.transfer_ns == 5 * 40 * US
    assert path.length_ns == path.own_ns.sum() + path.transfer_ns
    assert "across ranks" in str(path) and "rank 1" in str(path) and "rank 0" not in str(path)


def test_it_goes_from_rank_to_rank():
    first = rank_trace(range(2), [("barrier", (), 50, 50, 90), ("barrier", (), 110, 110, 200)])
    second = rank_trace(range(2), [("barrier", (), 0, 0, 90), ("barrier", (), 180, 180, 200)])
    path = path_of(first, second)
    assert path.own_ns.tolist() == [50 * US, 90 * US]
    assert path.transfer_ns == 60 * US


def test_what_no_process_waited_for_holds_nothing_up():
    """All the time of the transfer the program computes."""
    parts = [Partition("rank", number) for number in range(2)]
    # Exposed time is not asked for, so that it is 0.
    found = job_collectives(zip(parts, job([0, 30]), strict=True), with_exposed=False)
    assert len(rank_path(found)) == 0 and str(rank_path(found)) == ""


@pytest.mark.parametrize("seed", range(4))
def test_any_job_has_one_that_is_no_longer_than_the_job(seed):
    random = np.random.default_rng(seed)
    at, calls = np.zeros(4), [[] for _ in range(4)]
    for _ in range(30):
        at = at + random.exponential(80, 4)
        end = at.max() + random.exponential(20)
        for rank in range(4):
            calls[rank].append(("barrier", (), at[rank], at[rank], end + random.exponential(2)))
        at = np.array([own[-1][4] for own in calls])
    path = path_of(*(rank_trace(range(4), own) for own in calls))
    whole = (max(own[-1][4] for own in calls) - min(own[0][2] for own in calls)) * US
    assert path.length_ns == pytest.approx(whole, abs=5 * US)
    assert (path.start_ns[:-1] == path.end_ns[1:]).all()
