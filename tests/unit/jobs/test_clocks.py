"""Clocks of machines brought together by what ranks of them did together."""

import numpy as np
import pytest

from opscope.jobs.clocks import EVEN, Arrivals, brought_together, fit_course, machines_of

ORIGIN = 1_700_000_000_000_000_000


def about(host, boot="", end_ns=ORIGIN, monotonic_ns=1_000):
    known = {"host_name": host, "end_ns": end_ns, "end_monotonic_ns": monotonic_ns}
    return {**known, **({"boot_id": boot} if boot else {})}


def arrivals(clocks, together, count=60, seed=0):
    """Collectives of processes, each list of which does ``count``; clocks are offset and drift."""
    random = np.random.default_rng(seed)
    rows = []
    for group, members in enumerate(together):
        begin = np.sort(random.uniform(0, 5e9, count))
        for number, moment in enumerate(begin):
            arrives = moment + random.exponential(2e6, len(members))
            ends = arrives.max() + 5e4 + random.exponential(1e5, len(members))
            for member, start, end in zip(members, arrives, ends, strict=True):
                offset, drift = clocks[member]
                own = [int(t + offset + drift * t) + ORIGIN for t in (start, end)]
                rows.append((group * count + number, member, *own))
    columns = np.array(rows, dtype=np.int64).T
    yes = np.ones(len(rows), dtype=np.bool_)
    return Arrivals(*columns, gives=yes, takes=yes)


def test_processes_of_one_start_of_a_machine_share_its_clock():
    found = machines_of([about("a", "1"), about("b", "1"), about("a", "2")], ["r0", "r1", "r2"])
    assert found.machine.tolist() == [0, 0, 1] and found.machines == ("a", "a")
    assert str(machines_of([], [])) == "No process was compared."


def test_a_wall_clock_that_was_set_between_two_recordings_is_allowed_for():
    hour = 3_600 * 10**9
    found = machines_of([about("a"), about("a", end_ns=ORIGIN + hour)], ["r0", "r1"])
    assert found.on_one(1, np.array([ORIGIN + hour])).tolist() == [ORIGIN]
    assert found.bound_ns(1, np.array([ORIGIN])).tolist() == [0.0]


@pytest.mark.parametrize("seed", range(4))
def test_offset_and_drift_are_found_within_the_bound(seed):
    random = np.random.default_rng(seed)
    clocks = [(0, 0), *((random.uniform(-5e7, 5e7), random.uniform(-5e-5, 5e-5)) for _ in range(3))]
    known = machines_of([about(f"h{i}") for i in range(4)], [f"r{i}" for i in range(4)])
    found = brought_together(known, arrivals(clocks, [[0, 1, 2, 3]], seed=seed))
    true = np.linspace(0, 5e9, 20)
    for row, (offset, drift) in enumerate(clocks):
        own = (true + offset + drift * true).astype(np.int64) + ORIGIN
        error = np.abs(found.on_one(row, own) - ORIGIN - true)
        assert (error <= found.bound_ns(row, own) + 2).all()
        assert np.median(error) <= 50_000
    assert "to within" in str(found) and not found.unknown


def test_machines_are_reached_through_others():
    clocks = [(0, 0), (7e6, 0), (-9e6, 0)]
    known = machines_of([about(f"h{i}") for i in range(3)], ["r0", "r1", "r2"])
    found = brought_together(known, arrivals(clocks, [[0, 1], [1, 2]]))
    assert found.through == ((), (), (1,))
    moment = np.array([ORIGIN + 10**9])
    for row, (offset, _) in enumerate(clocks):
        error = abs(int(found.on_one(row, moment + int(offset))[0]) - int(moment[0]))
        assert error <= found.bound_ns(row, moment)[0] + 2
    assert found.bound_ns(2, moment) > found.bound_ns(1, moment)


def test_a_machine_that_shares_nothing_is_reported_not_to_be_known():
    known = machines_of([about(f"h{i}") for i in range(3)], ["r0", "r1", "r2"])
    found = brought_together(known, arrivals([(0, 0)] * 3, [[0, 1]]))
    assert found.unknown == ["h2"]
    assert found.bound_ns(2, np.array([ORIGIN])).tolist() == [np.inf]
    assert "The clocks of h2 could not be aligned with that of h0" in str(found)


def test_what_only_one_side_bounds_is_not_known():
    """A broadcast from one machine alone: the other may be behind by any time."""
    known = machines_of([about("a"), about("b")], ["r0", "r1"])
    both = arrivals([(0, 0)] * 2, [[0, 1]])
    is_first = both.process == 0
    one_way = Arrivals(
        both.collective, both.process, both.start_ns, both.end_ns, is_first, ~is_first
    )
    assert brought_together(known, one_way).unknown == ["b"]


def test_processes_that_do_not_say_where_they_ran_are_taken_to_agree_where_they_can():
    known = machines_of([{}, {}, {}], ["rank 0", "rank 1", "rank 2"])
    assert known.machines == ("rank 0", "rank 1", "rank 2")
    found = brought_together(known, arrivals([(0, 0), (0, 0), (8e6, 0)], [[0, 1, 2]]))
    moment = np.array([ORIGIN + 10**9])
    assert found.on_one(1, moment).tolist() == moment.tolist()
    assert found.bound_ns(1, moment)[0] > 0
    assert found.on_one(2, moment + 8_000_000)[0] == pytest.approx(int(moment[0]), abs=60_000)


def conditions(random, count, span_ns, offset_ns, drift, slowness_ns=2e5, bend=None):
    """What ``count`` collectives between two machines say, in the order of ``fit_course``."""
    at = np.sort(random.uniform(0, span_ns, count))
    arrives = at + random.exponential(3e6, (2, count))
    ends = arrives.max(axis=0) + 1e5 + random.exponential(slowness_ns, (2, count))
    true = bend or (lambda time: offset_ns + drift * time)
    starts_there, ends_there = (time + true(time) for time in (arrives[1], ends[1]))
    here_end, here_start = (time.astype(np.int64) + ORIGIN for time in (ends[0], arrives[0]))
    above = starts_there.astype(np.int64) + ORIGIN - here_end
    below = ends_there.astype(np.int64) + ORIGIN - here_start
    # As moments the other machine's count, which are the true ones here.
    moments = (time.astype(np.int64) + ORIGIN for time in (arrives[1], ends[1]))
    return (next(moments), above), (next(moments), below), true


def test_one_collective_is_enough_for_a_bound():
    moment, none = np.array([ORIGIN]), np.zeros(0, dtype=np.int64)
    above, below = (moment, np.array([-50_000])), (moment, np.array([90_000]))
    line = fit_course(above, below)
    assert line.ahead_ns(moment) == 20_000
    assert line.bound_ns(moment) == pytest.approx(70_000)
    assert fit_course(above, (none, none)) is None and fit_course((none, none), below) is None
    assert EVEN.ahead_ns(moment).tolist() == [0] and EVEN.bound_ns(moment).tolist() == [0.0]


def test_what_no_line_satisfies_is_not_known():
    moments = np.array([ORIGIN, ORIGIN + 1000])
    assert fit_course((moments, np.array([100, 100])), (moments, np.array([50, 50]))) is None


def test_one_collective_in_a_hundred_that_is_another_changes_little():
    above, below, true = conditions(np.random.default_rng(6), 400, 1e10, 3e6, 1e-5)
    above[1][200] += 10**9
    course = fit_course(above, below)
    moments = np.linspace(0, 1e10, 20).astype(np.int64) + ORIGIN
    error = np.abs(course.ahead_ns(moments) - true(moments - ORIGIN))
    assert (error <= course.bound_ns(moments) + 2).all() and course.worst_ns < 1e6


def test_a_clock_that_runs_unevenly_is_followed():
    above, below, true = conditions(
        np.random.default_rng(4), 2000, 3600e9, 0, 0, bend=lambda time: 2e6 * np.sin(time / 900e9)
    )
    course = fit_course(above, below)
    times = np.linspace(0, 3600e9, 200)
    moments = times.astype(np.int64) + ORIGIN
    assert (np.abs(course.ahead_ns(moments) - true(times)) <= course.bound_ns(moments) + 2).all()
    assert np.median(np.abs(course.ahead_ns(moments) - true(times))) < 100_000
