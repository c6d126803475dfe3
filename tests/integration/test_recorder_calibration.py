"""What recording costs: measured once, never in a recording, told in every trace."""

import threading

import pytest
import torch

import opscope
from opscope import _native
from opscope.cli.completeness import describe_completeness
from opscope.recording import cost
from opscope.trace.ledger_rows import SLOWDOWN
from support.recorded import names, record


@pytest.fixture
def not_measured_yet():
    kept = dict(cost._measured), dict(cost._slowdowns)
    cost._measured.clear()
    cost._slowdowns.clear()
    yield
    cost._measured.update(kept[0])
    cost._slowdowns.update(kept[1])


def test_the_cost_of_a_span_is_in_the_ledger(not_measured_yet):
    trace = record(lambda: torch.ones(1))
    recorder = trace.ledger["recorder"]
    assert recorder["cost_ns: floor"] > 0
    assert recorder["cost_ns: span"] > 0
    assert not any("calibration" in name for name in names(trace))


def test_torchs_part_is_no_more_than_the_whole(not_measured_yet, monkeypatch):
    spans = iter([5.0, 9.0] * 5)  # noise: the empty callback took longer
    times = {True: lambda: 7.0, False: lambda: next(spans)}
    monkeypatch.setattr(_native, "time_spans", lambda empty_callback: times[empty_callback]())
    assert cost.recording_cost_ns() == {"floor": 5.0, "span": 5.0}


def test_it_is_measured_once(not_measured_yet):
    first = record(lambda: torch.ones(1)).ledger["recorder"]
    assert record(lambda: torch.zeros(1)).ledger["recorder"] == first


def test_it_is_put_off_while_something_else_is_recorded(not_measured_yet):
    with opscope.profile() as outer:
        inner = record(lambda: torch.ones(1))
    assert "cost_ns: span" not in inner.ledger.get("recorder", {})
    assert "cost_ns: span" in outer.trace.ledger["recorder"]
    assert not any("calibration" in name for name in names(outer.trace))


def test_a_window_that_opens_in_the_middle_has_none_of_it(not_measured_yet, monkeypatch):
    opened, real = [], _native.time_spans

    def open_first(empty_callback):
        if not empty_callback and not opened:
            opened.append(opscope.profile())
            opened[0].start()
        return real(empty_callback)

    monkeypatch.setattr(_native, "time_spans", open_first)
    assert cost.recording_cost_ns() == {}
    opened[0].stop()
    assert not any("calibration" in name for name in names(opened[0].trace))
    assert cost.recording_cost_ns()["span"] > 0, "measured once there is none"


def test_measuring_leaves_nothing_behind(not_measured_yet):
    windows = _native.statistics()["windows"]
    cost.recording_cost_ns()
    assert _native.statistics()["windows"] == windows
    assert _native.statistics()["wanted"] == 0
    assert not torch.autograd._profiler_enabled()


def test_threads_that_measure_at_once_get_the_same(not_measured_yet):
    seen = []
    threads = [
        threading.Thread(target=lambda: seen.append(cost.recording_cost_ns())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 4 and all(measured == seen[0] for measured in seen)


@pytest.mark.parametrize(
    ("option", "level"),
    [
        ("with_stack", "Python and C calls"),
        ("with_functions", "Python calls"),
        ("with_own_functions", "Python calls"),
    ],
)
def test_what_recording_does_to_code_between_events_is_in_the_ledger(
    not_measured_yet, option, level
):
    trace = record(lambda: torch.ones(1), **{option: True})
    assert trace.ledger["recorder"][f"{SLOWDOWN}{level}"] > 0
    assert not any("_time_loops" in name or "_arithmetic" in name for name in names(trace))
    again = record(lambda: torch.ones(1), **{option: True})
    assert again.ledger["recorder"] == trace.ledger["recorder"]


def test_where_no_calls_are_recorded_nothing_runs_between_events(not_measured_yet):
    rows = record(lambda: torch.ones(1)).ledger["recorder"]
    assert not any(what.startswith(SLOWDOWN) for what in rows)


@pytest.mark.parametrize(("factor", "said"), [(1.84, "1.8 times as long"), (1.01, "")])
def test_a_slowdown_that_can_be_noticed_is_said(not_measured_yet, factor, said):
    cost._slowdowns["Python and C calls"] = factor
    line = describe_completeness(record(lambda: torch.ones(1), with_stack=True))
    assert (said in line) if said else ("as long" not in line)
