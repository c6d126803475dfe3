"""Changes of what is collected are told as text, again and again, of thousands of them."""

import gc
import time

from opscope.flight.collected import Collected, periods_of


def test_what_held_at_a_moment_and_every_change_since_is_told():
    collected = Collected("operators")
    collected.change("steps", 3)
    time.sleep(0.002)
    from_ns = time.time_ns()
    collected.change("operators", 7)
    told = [line.split(" ")[1:] for line in collected.since(from_ns, 9).splitlines()]
    assert told == [["steps", "3"], ["operators", "7"], ["", "9"]]
    assert collected.count == 2


def test_a_moment_before_all_changes_has_what_came_first():
    collected = Collected("operators")
    collected.change("steps", 3)
    periods = periods_of(collected.since(0, 5), 0, time.time_ns())
    assert [(period.level, period.steps) for period in periods] == [("operators", 3), ("steps", 2)]


def test_telling_thousands_sets_off_no_garbage_collection():
    collected = Collected("operators")
    for step in range(10_000):
        collected.change("steps" if step % 2 else "operators", step)
    gc.collect()
    before = [one["collections"] for one in gc.get_stats()]
    told = collected.since(0, 10_000)
    assert [one["collections"] for one in gc.get_stats()] == before
    assert len(told.splitlines()) == 10_002
