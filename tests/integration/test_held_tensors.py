"""How long tensors are held, so that their addresses are not used again, and what that takes."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import opscope  # noqa: E402
from opscope import _native, flight_recorder  # noqa: E402
from support.recorded import record  # noqa: E402

BOTH = {"record_shapes": True, "profile_memory": True}


def subtract(times):
    x, sub = torch.ones(4), torch.sub
    for _ in range(times):
        z = x.add(1)
        sub(z, z.neg())


def given_to(trace, name):
    """Ids of the tensors that operators of this name got."""
    events, tensors = trace.table("events"), trace.table("tensors")
    names = np.array(trace.names, dtype=object)[events["name"][tensors["event"]]]
    return tensors["tensor_id"][names == name]


def test_a_ring_lets_go_of_what_it_held_for_what_it_has_forgotten(tmp_path):
    recorder = flight_recorder(
        directory=tmp_path, triggers=[], max_memory="8MiB", budget=None, **BOTH
    )

    def program():
        subtract(5_000)

    with recorder:  # the bridge is loaded
        program()
    _native.set_tensor_budget(24 << 20)  # 120,000 structs; the program makes 300,000
    try:
        with recorder:
            for _ in range(10):
                program()  # in a thread that goes on, and in some that end
                thread = threading.Thread(target=program)
                thread.start()
                thread.join()
            assert _native.statistics()["used_bytes"] < 32 << 20
            trace = opscope.load(recorder.dump(wait=True))
    finally:
        _native.set_tensor_budget(512 << 20)

    assert trace.ledger["tensor ids"] == {"dropped: memory budget": 0}
    added = given_to(trace, "aten::neg")
    first, second = given_to(trace, "aten::sub").reshape(-1, 2).T
    assert 1000 < len(added) < 60_000
    assert len(np.unique(first)) == len(first)
    assert len(np.unique(second)) == len(second)
    assert set(added[-1000:]) <= set(first)
    assert not set(first) & set(second)


def test_what_is_held_for_many_threads_counts_with_their_lists():
    def used(**options):
        before = _native.statistics()["used_bytes"]
        with opscope.profile(**options):
            for _ in range(100):
                thread = threading.Thread(target=subtract, args=(1,))
                thread.start()
                thread.join()
            return _native.statistics()["used_bytes"] - before

    assert used(**BOTH) - used(record_shapes=True) > 100 * 2048 * 8  # the cache of each


def test_a_ring_holds_what_it_has_when_a_dump_is_released(tmp_path):
    with flight_recorder(directory=tmp_path, triggers=[], budget=None, **BOTH) as recorder:
        for _ in range(2):
            subtract(2_000)
            trace = opscope.load(recorder.dump(wait=True))
    assert len(np.unique(given_to(trace, "aten::sub"))) == 8_000


def test_a_stream_holds_what_it_has_when_another_recording_is_released(tmp_path):
    with opscope.profile(stream_to=tmp_path, **BOTH):
        subtract(2_000)
        assert len(record(lambda: torch.ones(1)).events)
        gc.collect()
        subtract(2_000)
    trace = opscope.load(tmp_path)
    assert len(np.unique(given_to(trace, "aten::sub"))) == 8_000


def test_a_recording_in_pieces_holds_no_tensors(tmp_path):
    x = torch.ones(4)
    with opscope.profile(stream_to=tmp_path, max_disk="32MiB", **BOTH):
        for _ in range(300_000):
            x.add(1)
        used_bytes = _native.statistics()["used_bytes"]
    trace = opscope.load(tmp_path)

    assert trace.ledger["tensor ids"]["unknown: the recording is too long"] > 0
    assert used_bytes < 80 << 20  # all their structs together would be more than 120 MiB
