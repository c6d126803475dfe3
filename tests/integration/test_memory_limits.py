"""How much memory recordings may take, where several of a process have limits of their own."""

import pytest
import torch

import opscope
from opscope.errors import UsageError
from support.recorded import count

ONES = torch.ones(1)
MORE_THAN_A_MEBIBYTE = 60_000
"""Calls of an operator that records nothing else: 48 bytes each."""


def added(trace):
    return count(trace, "aten::add")


def add(count):
    for _ in range(count):
        ONES.add(1)


def dropped(trace):
    return trace.ledger["events"].get("dropped: memory budget", 0)


def test_a_limit_ends_with_its_recording(tmp_path):
    with opscope.profile(max_memory="1MiB") as limited:
        add(MORE_THAN_A_MEBIBYTE)
    assert added(limited.trace) < MORE_THAN_A_MEBIBYTE and dropped(limited.trace) > 0
    with opscope.flight_recorder("1h", directory=tmp_path, triggers=[], budget=None) as recorder:
        add(MORE_THAN_A_MEBIBYTE)
        trace = opscope.load(recorder.dump(wait=True))
    assert added(trace) == MORE_THAN_A_MEBIBYTE and dropped(trace) == 0


@pytest.mark.parametrize("is_read", [False, True])
def test_a_limited_recording_inside_another_takes_nothing_from_it(is_read):
    with opscope.profile() as outer:
        add(10)
        with opscope.profile(max_memory="1MiB") as inner:
            add(MORE_THAN_A_MEBIBYTE)
        if is_read:
            assert added(inner.trace) == MORE_THAN_A_MEBIBYTE
        add(MORE_THAN_A_MEBIBYTE)
    assert added(outer.trace) == 2 * MORE_THAN_A_MEBIBYTE + 10
    assert dropped(outer.trace) == 0


def test_what_is_left_when_the_larger_one_has_ended_is_limited():
    outer, inner = opscope.profile(max_memory="64MiB"), opscope.profile(max_memory="1MiB")
    outer.start()
    inner.start()
    add(1_000)
    outer.stop()
    add(MORE_THAN_A_MEBIBYTE)
    inner.stop()
    assert added(outer.trace) == 1_000 and dropped(outer.trace) == 0
    assert 1_000 <= added(inner.trace) < MORE_THAN_A_MEBIBYTE
    assert dropped(inner.trace) > 0


@pytest.mark.parametrize("given", ["much", "1 MB", 0, -1, True])
def test_what_is_no_size_is_refused(given):
    with pytest.raises(UsageError, match=r"max_memory= .* is not a size"):
        opscope.profile(max_memory=given)
    with pytest.raises(UsageError, match=r"max_disk= .* is not a size"):
        opscope.profile(stream_to="never", max_disk=given)
