"""What native passes say of accounts, modules, parts of a step, lines and operators is what plain
ways say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opscope import _native
from opscope.api.trace import Trace
from support import plain_ways
from support.plain_ways import assert_as_plain
from support.random_program import random_program


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    events=st.integers(0, 120),
    with_steps=st.booleans(),
    in_order=st.booleans(),
    sampled=st.booleans(),
    unit_ns=st.sampled_from([1, 1_000, 100_000, 3_000_000]),
)
def test_they_say_the_same_of_any_program(seed, events, with_steps, in_order, sampled, unit_ns):
    trace = random_program(seed, events, with_steps, in_order, sampled, unit_ns)
    assert_as_plain(trace, memory_recorded=True)


@pytest.mark.parametrize("events", [0, 1, 12_000])
def test_they_say_the_same_of_nothing_of_one_event_and_of_many(events):
    for with_steps in (False, True):
        assert_as_plain(random_program(3, events, with_steps), memory_recorded=True)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), rows=st.integers(0, 9_000), lines=st.integers(1, 5_000))
def test_any_number_of_lines_is_told_apart(seed, rows, lines):
    random = np.random.default_rng(seed)
    frame = random.integers(-1, 3, rows, dtype=np.int32)
    line = random.integers(-1, lines, rows, dtype=np.int32)
    own_ns = random.integers(-(1 << 40), 1 << 40, rows)
    plain = {}
    for key, own in zip(zip(frame.tolist(), line.tolist(), strict=True), own_ns, strict=True):
        if key[0] >= 0:
            count, total = plain.get(key, (0, 0))
            plain[key] = count + 1, total + own
    found = zip(*(one.tolist() for one in _native.line_sums(frame, line, own_ns)), strict=True)
    assert {(of, at): (count, total) for of, at, count, total in found} == plain


def test_columns_that_were_not_recorded_are_as_their_defaults():
    whole = random_program(5, 300)
    kept = ("thread", "parent", "name", "kind", "start_ns", "duration_ns")
    events = {name: whole.events[name] for name in kept}
    assert_as_plain(Trace({"events": events}, whole.names, {}))


def test_makers_within_what_they_made_lead_nowhere():
    """Round and round: of a trace that is damaged, or whose spans are out of order."""
    assert_as_plain(random_program(11, 20, in_order=False), memory_recorded=True)


def test_starts_out_of_order_are_put_into_it():
    whole = random_program(6, 200, sampled=False)
    start = whole.events["start_ns"].copy()
    start[50:60] = start[50:60][::-1]
    events = whole.events.replaced({"start_ns": start})
    assert_as_plain(whole.with_tables({"events": events}), memory_recorded=True)


def test_a_difference_is_noticed(monkeypatch):
    trace = random_program(7, 200)
    plain = plain_ways.plain_sums

    def a_nanosecond_more(*of):
        sums, main, pieces = plain(*of)
        place = int(np.flatnonzero(sums[0][0])[0])
        sums[0][0][place] += 1
        return sums, main, pieces

    monkeypatch.setattr(plain_ways, "plain_sums", a_nanosecond_more)
    with pytest.raises(AssertionError):
        assert_as_plain(trace, memory_recorded=True)
