"""Results asked for by a signal handler, a finalizer or the collector, in the middle of asking."""

import gc
import os
import threading

import pytest
import torch
from tests.support.interruptions import interrupt_at

import opscope
from support.recorded import names

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def recorded(**options):
    prof = opscope.profile(record_shapes=True, with_stack=True, **options)
    with prof:
        for _ in range(3):
            torch.ones(1)
    return prof


RESULTS = {
    "trace": lambda prof, path: names(prof.trace),
    "save": lambda prof, path: prof.trace.save(path / "trace"),
    "key_averages": lambda prof, path: prof.key_averages().table(),
    "chrome": lambda prof, path: prof.export_chrome_trace(path / "trace.json.gz"),
    "perfetto": lambda prof, path: prof.export_perfetto(path / "trace.pftrace"),
    "stop": lambda prof, path: prof.stop(),
}


@pytest.mark.parametrize(
    ("asked", "handler"),
    [
        ("trace", "save"),
        ("save", "stop"),
        ("chrome", "key_averages"),
        ("perfetto", "trace"),
        ("stop", "chrome"),
    ],
)
def test_a_handler_asks_in_the_middle_of_asking(asked, handler, tmp_path):
    place, has_more = 1, True
    while has_more:
        prof = recorded()
        has_more = interrupt_at(
            place,
            lambda prof=prof: RESULTS[asked](prof, tmp_path),
            lambda prof=prof: RESULTS[handler](prof, tmp_path),
        )
        assert names(prof.trace).count("aten::ones") == 3, place
        assert prof.trace is not None and prof.key_averages()[0].count > 0
        place += 6007
    if "save" in (asked, handler):
        assert names(opscope.load(tmp_path / "trace")).count("aten::ones") == 3


def test_a_finalizer_and_the_collector_ask():
    prof = recorded()
    found = []

    class Asking:
        def __init__(self):
            self.itself = self  # freed by the collector only

        def __del__(self):
            found.append(names(prof.trace).count("aten::ones"))

    def on_collection(phase, info):
        found.append(prof.key_averages()[0].count > 0)

    before = gc.get_threshold()
    gc.callbacks.append(on_collection)
    gc.set_threshold(5, 2, 2)
    try:
        for _ in range(20):
            Asking()
        prof.trace  # noqa: B018
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(on_collection)
    assert found.count(3) > 0 and all(found)


def test_a_handler_stops_while_another_thread_hands_over_a_cycle():
    """The other thread looks at the trace that this one is decoding when the handler comes."""
    entered = threading.Event()

    def on_ready(prof):
        entered.set()
        names(prof.trace)

    prof = opscope.profile(on_trace_ready=on_ready)
    prof.start()
    torch.ones(1)
    thread = threading.Thread(target=prof.stop)

    def handler():
        prof.stop()
        assert names(prof.trace).count("aten::ones") == 1

    thread.start()
    entered.wait()
    for place in (1, 50, 500):
        interrupt_at(place, lambda: prof.trace, handler)
    thread.join()


def test_a_child_forked_while_another_thread_looks_at_the_trace():
    prof = opscope.profile()
    with prof:
        for _ in range(20_000):
            torch.ones(1)
    thread = threading.Thread(target=lambda: prof.key_averages().table())
    thread.start()
    for _ in range(20):
        child = os.fork()
        if child == 0:
            os._exit(0 if len(prof.trace.events) >= 20_000 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    thread.join()
