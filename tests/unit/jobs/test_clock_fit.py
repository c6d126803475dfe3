"""Lines between conditions: what is true is always within the bound, and close to the middle."""

import numpy as np
import pytest

from opscope.jobs.clock_fit import EVEN, fit_course

ORIGIN = 1_700_000_000_000_000_000


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


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_holds_and_the_middle_is_near(seed):
    random = np.random.default_rng(seed)
    offset, drift = random.uniform(-50e6, 50e6), random.uniform(-50e-6, 50e-6)
    count, span = int(random.integers(30, 400)), random.uniform(1e9, 60e9)
    above, below, true = conditions(random, count, span, offset, drift)
    line = fit_course(above, below)
    times = np.linspace(0, span, 50)
    moments = times.astype(np.int64) + ORIGIN
    error = np.abs(line.ahead_ns(moments) - true(times))
    assert (error <= line.bound_ns(moments) + 2).all()
    assert np.median(error) < 50_000


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
